"""Names of users and roles: each belongs to a database."""

from __future__ import annotations

from typing import NamedTuple


class UserName(NamedTuple):
    """A user of a database; `str` gives "user@db"."""

    user: str
    db: str

    @property
    def key(self) -> str:
        """Its `_id` in `admin.system.users`."""
        return f"{self.db}.{self.user}"

    def document(self) -> dict[str, str]:
        return {"user": self.user, "db": self.db}

    def __str__(self) -> str:
        return f"{self.user}@{self.db}"


EXTERNAL = "$external"
"""The database of users who are authenticated externally, for example by certificates."""
SYSTEM = UserName("__system", "local")
"""The name under which the processes of a cluster authenticate to each other."""


class RoleName(NamedTuple):
    """A role of a database; `str` gives "role@db"."""

    role: str
    db: str

    @property
    def key(self) -> str:
        """Its `_id` in `admin.system.roles`."""
        return f"{self.db}.{self.role}"

    def document(self) -> dict[str, str]:
        return {"role": self.role, "db": self.db}

    def __str__(self) -> str:
        return f"{self.role}@{self.db}"
