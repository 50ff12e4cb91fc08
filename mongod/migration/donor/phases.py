"""Durations of the states of a donation, for the changelog and the log."""

from __future__ import annotations

from docstore.sharding.donor import State


class Phases:
    """`now`: when the first state begins, in seconds of any clock."""

    def __init__(self, now: float, state: State) -> None:
        self._seconds: dict[State, float] = {}
        self._state = state
        self._since = now

    def reached(self, state: State, now: float) -> None:
        """Note that the donation enters this state. Idempotent."""
        if state is not self._state:
            self._seconds[self._state] = self._seconds.get(self._state, 0.0) + now - self._since
            self._state, self._since = state, now

    def milliseconds(self) -> dict[str, int]:
        """Return the duration of each ended state, in the order of the states."""
        return {state.name.lower(): round(seconds * 1000) for state, seconds in self._seconds.items()}
