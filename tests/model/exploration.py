"""Breadth-first over all states that can be reached, so that the first violation has the shortest story."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class Violation(Exception):
    """An invariant does not hold after a step."""


class TooMany(Exception):
    """More states than expected: the model has outgrown what a test can explore."""


@dataclass(frozen=True, slots=True)
class Explored(Generic[S]):
    """`violation`: what broke, with the steps that lead there; None when nothing can break."""

    states: int
    steps: int
    violation: str | None
    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.states} states, {self.steps} steps: {self.violation}", *self.story])


def explore(
    initial: S, successors: Callable[[S], Iterable[tuple[str, S]]], *, canonical: Callable[[S], S], most: int
) -> Explored[S]:
    """All that can be reached from `initial`. `successors` raise `Violation`; equal states are those of one `canonical`
    form, which may be any of them. TooMany beyond `most` states.
    """
    first = canonical(initial)
    came_from: dict[S, tuple[S, str] | None] = {first: None}
    waiting = deque([first])
    steps = 0
    while waiting:
        state = waiting.popleft()
        try:
            for step, reached in successors(state):
                steps += 1
                form = canonical(reached)
                if form not in came_from:
                    came_from[form] = (state, step)
                    waiting.append(form)
        except Violation as violation:
            return Explored(len(came_from), steps, str(violation), (*_story(came_from, state), str(violation)))
        if len(came_from) > most:
            raise TooMany(f"more than {most} states")
    return Explored(len(came_from), steps, None)


def _story(came_from: dict[S, tuple[S, str] | None], state: S) -> list[str]:
    steps = []
    while (origin := came_from[state]) is not None:
        state, step = origin
        steps.append(step)
    return steps[::-1]
