"""The users of a cluster, cached from the config servers.

A cached user is valid until the config servers report a change; they are polled every second. If they do not answer,
it is valid for at most `userCacheInvalidationIntervalSecs`. A change through this router takes effect at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.namespace import AUTH_SCHEMA, ROLES_NS, USERS_NS, VERSIONS_NS, split_namespace
from docstore.security.names import UserName
from docstore.security.users import KnownBy, User, credentials_of, user_of_reply
from docstore.sharding.requests import get_credentials, user_changes
from mongos.limits import MAX_CACHED_USERS
from mongos.routing.shards import Shard

LOG = component("ACCESS")
_INTERVAL_SECONDS = 30
_ASKING_SECONDS = 1.0
_INTERVAL = "userCacheInvalidationIntervalSecs"


class RoutedUsers:
    """The directory of a router. `clock`: monotonic seconds."""

    def __init__(self, config: Shard, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._changes = 1
        self._interval = _INTERVAL_SECONDS
        self._known: dict[UserName, User | None] = {}
        self._known_at = 0
        self._was_used = False
        self._seen: Mapping[str, Any] | None = None
        """The last reply of the config servers about changes."""

    @property
    def generation(self) -> int:
        # Two numbers in one, each of which only rises.
        return (int(self._clock() / self._interval) << 32) + self._changes

    def invalidate(self) -> None:
        """Discard the cache."""
        self._changes += 1

    async def follow(self) -> None:
        """Watch for changes until cancelled."""
        while True:
            await asyncio.sleep(_ASKING_SECONDS)
            with suppress(CommandError):
                reply = (await self._config.command("admin", user_changes(), repeatable=True)).decoded()
                version = {name: reply[name] for name in ("process", "changes")}
                if version != self._seen:
                    self._seen = version
                    self.invalidate()

    async def was_used(self) -> bool:
        conditions: dict[str, dict[str, str]] = {VERSIONS_NS: {"_id": AUTH_SCHEMA}, USERS_NS: {}, ROLES_NS: {}}
        for namespace, condition in conditions.items():
            if not self._was_used:
                database, name = split_namespace(namespace)
                command = {"find": name, "filter": condition, "limit": 1, "singleBatch": True}
                reply = (await self._config.command(database, command, repeatable=True)).decoded()
                self._was_used = bool(reply["cursor"]["firstBatch"])
        return self._was_used

    async def find(self, name: UserName) -> User | None:
        generation = self.generation
        if self._known_at != generation:
            self._known = {}
            self._known_at = generation
        if name in self._known:
            return self._known[name]
        user = await self._ask(name)
        if self._known_at == generation:
            if len(self._known) >= MAX_CACHED_USERS:
                self._known.clear()
            self._known[name] = user
        return user

    async def known_by(self, name: UserName, _secret: bytes) -> KnownBy:
        # Always requested, with a reply of fixed length: the time does not tell which users exist.
        reply = (await self._config.command("admin", get_credentials(name.user, name.db), repeatable=True)).decoded()
        credentials = credentials_of(reply)
        if reply["known"]:
            return KnownBy(credentials)
        return KnownBy(None, {mechanism: credential.iterations for mechanism, credential in credentials.items()})

    async def _ask(self, name: UserName) -> User | None:
        command = {
            "usersInfo": name.document(), "showPrivileges": True, "showCredentials": True,
            "showAuthenticationRestrictions": True,
        }  # fmt: skip
        users = (await self._config.command("admin", command, repeatable=True)).decoded()["users"]
        if not users:
            return None
        try:
            return user_of_reply(users[0])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("The document of a user is not one of a user", user=str(name), reason=repr(error))
            return None

    def parameter(self) -> ServerParameter:
        """Return the server parameter for how long cached users remain valid."""

        def put(value: Any) -> None:
            seconds = whole_number(_INTERVAL, value)
            if not 1 <= seconds <= 24 * 3600:
                raise CommandError(
                    Code.BadValue, f"Invalid value for parameter {_INTERVAL}: {seconds} is not from 1 to 86400"
                )
            self._interval = seconds

        return ServerParameter(name=_INTERVAL, get=lambda: self._interval, assign=put)
