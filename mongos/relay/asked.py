"""Requests to the shards of a routed request, and the reply made of their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from docstore.bson import without_fields
from docstore.commands.declaration import Result
from mongos.merge.opened import Opening
from mongos.relay.targets import NamespaceTargets
from mongos.routing.requests import BETWEEN_CLIENT_AND_ROUTER, ShardReply
from mongos.routing.scatter import Scatter
from mongos.routing.targeting import Target

_SENT_AS_IT_IS = BETWEEN_CLIENT_AND_ROUTER - {b"$db"}


@dataclass(slots=True, kw_only=True)
class Asked:
    """The request to the shards, made from the client's, and the merge of their replies.

    - `target`: the shards.
    - `merge(answers)`: the reply's own fields, if they can be made in a step; None if a task is to make the result. A
      single shard's reply that is complete is passed on instead.
    - `without`: fields of the client's request to leave out; `add`: encoded fields to add.
    - `size`: the bytes that it writes to the chunk of its target.
    """

    target: Target
    merge: Callable[[Sequence[ShardReply]], bytes | None] | None = None
    without: frozenset[bytes] = frozenset()
    add: bytes = b""
    size: int = 0

    def message(self, raw: bytes, version: bytes) -> bytes:
        """Return the message to a shard, with its `$db`. `version`: the field with the shard version."""
        left_out = _SENT_AS_IT_IS | self.without if self.without else _SENT_AS_IT_IS
        return without_fields(raw, left_out, self.add + version)

    def body(self, raw: bytes) -> bytes:
        """Return the request for `Router.ask`."""
        return without_fields(raw, BETWEEN_CLIENT_AND_ROUTER | self.without, self.add)


@dataclass(slots=True, kw_only=True)
class AskedRead(Asked):
    """A request whose whole result comes from the answers.

    - `finish(answers)`: the client's result, from the successful answers.
    - `unavailable`: receives the shards that cannot be reached; None if all must answer.
    """

    finish: Callable[[Sequence[ShardReply]], Awaitable[Result]]
    unavailable: set[str] | None = None


@dataclass(slots=True, kw_only=True)
class AskedPipeline(Asked):
    """An aggregation. `opening`: that of its cursor."""

    opening: Opening


class Begun(NamedTuple):
    """The first attempt of a request, which was sent before its task began.

    Some of its shards may still be silent, or not be asked yet. `due`: the chunk that it writes to must be checked for
    a split.
    """

    targets: NamespaceTargets
    asked: Asked
    scatter: Scatter
    due: bool
