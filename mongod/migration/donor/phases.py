"""How long each state of a donation lasted, for the changelog and the log."""

from __future__ import annotations

from docstore.sharding.donor import State


class Phases:
    """`now`: when the first state begins, in seconds of any clock."""

    def __init__(self, now: float, state: State) -> None:
        self._seconds: dict[State, float] = {}
        self._state = state
        self._since = now

    def reached(self, state: State, now: float) -> None:
        """The donation is in this state now; again is the same as once."""
        if state is not self._state:
            self._seconds[self._state] = self._seconds.get(self._state, 0.0) + now - self._since
            self._state, self._since = state, now

    def milliseconds(self) -> dict[str, int]:
        """Of each state that has ended, in their order."""
        return {state.name.lower(): round(seconds * 1000) for state, seconds in self._seconds.items()}
