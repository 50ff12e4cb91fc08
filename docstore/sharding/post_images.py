"""The rules for post-images of writes on a sharded collection, checked by the shard during the write.

Invariants of accepted writes:

- the shard key of a document holds no array;
- a new document, or one whose key has changed, lies in a range that the shard owns.

So no write creates an orphan, whether by operators, a pipeline, a replacement or an upsert. Missing fields of a key
count as null. An update that would move a document to another shard is refused.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.tree import Filter
from docstore.query.value.places import meet
from docstore.sharding.key import ShardKey
from docstore.sharding.targeting import exact_key


class PostImages:
    """The rules of one collection on a shard. `owned`: the documents of its ranges; None where it owns all."""

    def __init__(self, key: ShardKey, owned: Predicate | None) -> None:
        self._key = key
        self._owned = owned
        self._places = [field.encode() for field in key.fields]

    def concerned(self, changed: frozenset[bytes] | None) -> bool:
        """True if a change of these paths may change the shard key, or the paths are None (unknown)."""
        return changed is None or meet(self._places, changed)

    def check_new(self, document: bytes, *, in_session: bool) -> None:
        """Check a document before its insertion. Errors: NotSingleValueField, IllegalOperation,
        WouldChangeOwningShard.
        """
        self._key_of(document)
        if not self._owns(document):
            _check_in_session(in_session)
            raise _elsewhere(self._key)

    def check_change(self, before: bytes, after: bytes, tree: Filter, *, multi: bool, in_session: bool) -> None:
        """Check the new version of a document. `tree`: the filter of the statement.

        Errors: NotSingleValueField. If the shard key changes: InvalidOptions in a statement over many documents,
        31025 if the filter does not fix the old key, IllegalOperation outside of retryable writes and
        transactions, WouldChangeOwningShard.
        """
        if self._key_of(after) == self._key.key_of(before):
            return
        if multi:
            raise CommandError(
                Code.InvalidOptions, "Multi-update operations are not allowed when updating the shard key field."
            )
        if exact_key(self._key, tree) is None:
            raise CommandError(
                31025, "Shard key update is not allowed without specifying the full shard key in the query"
            )
        _check_in_session(in_session)
        if not self._owns(after):
            raise _elsewhere(self._key)

    def _owns(self, raw: bytes) -> bool:
        return self._owned is None or self._owned.matches(raw)

    def _key_of(self, after: bytes) -> bytes:
        try:
            return self._key.key_of(after)
        except CommandError:
            fields = ", ".join(f"'{field}'" for field in self._key.fields)
            raise CommandError(
                Code.NotSingleValueField,
                f"After applying the update to the document, the (immutable) field {fields} was found to be an array or"
                " array descendant.",
            ) from None


def _check_in_session(in_session: bool) -> None:
    if not in_session:
        raise CommandError(
            Code.IllegalOperation,
            "Must run update to shard key field in a multi-statement transaction or with retryWrites: true.",
        )


def _elsewhere(key: ShardKey) -> CommandError:
    return CommandError(
        Code.WouldChangeOwningShard,
        f"with this value of the shard key {key} the document belongs on another shard, and a write does not"
        " move documents between shards: remove it and insert it anew",
    )
