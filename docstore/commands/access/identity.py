"""The user as whom a connection is authenticated."""

from __future__ import annotations

from docstore.security.users import User


class Identity:
    """A user as its connection knows it: as it was in a generation of the directory. `allowed`: decisions that were
    taken for it.
    """

    __slots__ = ("allowed", "generation", "user")

    def __init__(self, user: User, generation: int) -> None:
        self.user = user
        self.generation = generation
        self.allowed: set[object] = set()
