"""The authenticated user of a connection."""

from __future__ import annotations

from docstore.security.users import User


class Identity:
    """A user as of a generation of the user directory. `allowed`: cached authorization decisions."""

    __slots__ = ("allowed", "generation", "user")

    def __init__(self, user: User, generation: int) -> None:
        self.user = user
        self.generation = generation
        self.allowed: set[object] = set()
