"""Batches of update statements by `_id`: computes their effects before anything is written.

Invariants:
- A statement has the effect that it would have alone after those before it.
- The batch ends before the first statement that fails or that is not simple; nothing is computed for that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cython

from docstore.bson.validation import validate
from docstore.bson.walk import Value
from docstore.errors import CommandError
from docstore.kernel.compute.field_updates import FieldChanges
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.match.predicate import Predicate

if not cython.compiled:
    from docstore.bson.walk import OBJECT, find, part, value_end
    from docstore.kernel.compute.operators import field_changes
    from docstore.kernel.keys.encoding import append_key
    from docstore.kernel.write.statements import identity_type

if TYPE_CHECKING:
    Judged = tuple[bytes, frozenset[bytes] | None, Any, bool, bool]
    """The general update's result for a document: (the new document, the top-level fields that may have changed or
    None, the changed paths for the oplog entry, whether it counts as modified, whether its `_id` has the same bytes).
    """

_EMPTY_TIMESTAMP: bytes = bytes(8)
_RECORD_ID_BYTES: cython.Py_ssize_t = 8


class Written:
    """Consecutive statements with the same kind of write. `makes`: they insert documents; `names` and `paths`: what
    they may change, as in `Judged`; `same_identity`: no `_id` changes its bytes. The lists are parallel; `record_ids`
    are those on disk.
    """

    makes: cython.bint
    names: frozenset[bytes] | None
    paths: Any
    same_identity: cython.bint
    numbers: list[int]
    record_ids: list[bytes]
    before: list[bytes]
    after: list[bytes]

    def __init__(self, makes: bool, names: frozenset[bytes] | None, paths: Any, same_identity: bool) -> None:
        self.makes = makes
        self.names = names
        self.paths = paths
        self.same_identity = same_identity
        self.numbers = []
        self.record_ids = []
        self.before = []
        self.after = []


class Where:
    """The collection that statements write to. `rid_of` and `document_of` read the values of keys, which begin with
    `identities` and `records`. No entry of the `_id` index is above `newest`, if it is known. Documents that are not
    `owned`, or larger than `large`, are left to the general update.
    """

    rid_of: Callable[[bytes], bytes | None]
    document_of: Callable[[bytes], bytes | None]
    identities: bytes
    records: bytes
    newest: bytes | None
    owned: Predicate | None
    large: cython.Py_ssize_t

    def __init__(
        self,
        rid_of: Callable[[bytes], bytes | None],
        document_of: Callable[[bytes], bytes | None],
        identities: bytes,
        records: bytes,
        newest: bytes | None,
        owned: Predicate | None,
        large: int,
    ) -> None:
        self.rid_of = rid_of
        self.document_of = document_of
        self.identities = identities
        self.records = records
        self.newest = newest
        self.owned = owned
        self.large = large


class FallbackHooks:
    """The fallbacks for a statement that the kernel does not decide.

    - `judge`, of a statement's number and its document or None, returns the result, or None if the statement must run
      alone.
    - `admits` returns whether a sharded collection permits a change of these names, and the new document.
    - `all_paths` and `replaced` are the paths for operators on whole fields and for replacements.
    """

    judge: Callable[[int, bytes | None], Judged | None]
    admits: Callable[[frozenset[bytes] | None, bytes | None], bool] | None
    all_paths: Any
    replaced: Any

    def __init__(
        self,
        judge: Callable[[int, bytes | None], Judged | None],
        admits: Callable[[frozenset[bytes] | None, bytes | None], bool] | None,
        all_paths: Any,
        replaced: Any,
    ) -> None:
        self.judge = judge
        self.admits = admits
        self.all_paths = all_paths
        self.replaced = replaced


class IdentityUpdates:
    """The batch of statements, in the form of `docstore.kernel.write.statements`.

    The first `count` have results: `matched` and `modified` are the documents that each matches and modifies,
    `upserted` holds (number, `_id`) of inserts. `runs` are the writes, of `size` bytes.
    """

    count: cython.Py_ssize_t
    size: cython.Py_ssize_t
    matched: list[int]
    modified: list[int]
    upserted: list[tuple[int, Value]]
    runs: list[Written]
    _where: Where
    _fallbacks: FallbackHooks
    _remaining_bytes: cython.Py_ssize_t
    _out: KeyWriter
    _documents: dict[bytes, tuple[bytes, bytes]]
    _specification: bytes | None
    _changes: FieldChanges | None
    _in_order: cython.bint

    def __init__(self, where: Where, fallbacks: FallbackHooks, most_bytes: int, in_order: bool) -> None:
        """The batch ends at `most_bytes` of documents. `in_order`: writes keep the order of the statements, also those
        to different documents.
        """
        self.count = 0
        self.size = 0
        self.matched = []
        self.modified = []
        self.upserted = []
        self.runs = []
        self._where = where
        self._fallbacks = fallbacks
        self._remaining_bytes = most_bytes
        self._out = KeyWriter()
        # By the key of an `_id`: (record id, the current document); a new document has no record id yet.
        self._documents = {}
        self._specification = None
        self._changes = None
        self._in_order = in_order

    def work_out(self, statements: Sequence[Sequence[Any]], first: int, end: int) -> None:
        """Compute the effects of the statements from `first` on, at most those before `end`."""
        number: cython.Py_ssize_t
        try:
            for number in range(first, end):
                if not self._statement(number, statements[number]):
                    break
        except CommandError:
            # The statement is then run alone, and fails or not.
            return

    def _statement(self, number: cython.Py_ssize_t, statement: Sequence[Any]) -> cython.bint:
        """Add the statement to the batch; False if it must run alone."""
        query: bytes = statement[0]
        code: cython.int = identity_type(query) if _is_plain(statement) else 0
        rid: bytes | None
        before: bytes | None
        entry: tuple[bytes, bytes] | None
        where: Where = self._where
        if code == 0:
            return False
        self._out.clear()
        self._out.put_bytes(where.identities)
        append_key(self._out, code, query, 9, len(query) - 1)
        key: bytes = self._out.contents()
        entry = self._documents.get(key)
        if entry is not None:
            rid, before = entry
            if len(rid) == 0:
                return False
        else:
            rid = None if where.newest is not None and key > where.newest else where.rid_of(key)
            if rid is None:
                return self._without(number, statement, key)
            if len(rid) > _RECORD_ID_BYTES:
                rid = part(rid, len(rid) - _RECORD_ID_BYTES, len(rid))
            before = where.document_of(where.records + rid)
            assert before is not None, "the _id index leads to no record"
        if len(before) > where.large or (where.owned is not None and not where.owned.matches(before)):
            return False
        return self._change(number, statement[1][1], key, rid, before)

    def _without(self, number: cython.Py_ssize_t, statement: Sequence[Any], key: bytes) -> cython.bint:
        """Add a statement that matches no document."""
        specification: bytes = statement[1][1]
        changes: FieldChanges | None
        names: frozenset[bytes] | None = None
        document: bytes | None = None
        if has_operators(specification):
            changes = self._operators(specification)
            if changes is not None:
                if not statement[3]:
                    return self._done(0, 0)
                names = changes.names
                document = changes.insert(statement[0])
        elif _is_whole(specification):
            if not statement[3]:
                return self._done(0, 0)
            document = _placed(specification, statement[0], 4, len(statement[0]) - 1)
        if document is None:
            if not statement[3]:
                # The update has not been validated yet.
                return False
            judged = self._fallbacks.judge(number, None)
            if judged is None:
                return False
            document, names = judged[0], judged[1]
        else:
            validate(document)
        if self._fallbacks.admits is not None and not self._fallbacks.admits(names, document):
            return False
        if not self._take(len(document)):
            return False
        self._documents[key] = (b"", document)
        self._write(self._run_of(True, None, None, True, True), number, b"", b"", document)
        self.upserted.append((number, _identity(document)))
        return self._done(1, 0)

    def _change(
        self, number: cython.Py_ssize_t, specification: bytes, key: bytes, rid: bytes, before: bytes
    ) -> cython.bint:
        """Add a statement that matches a document."""
        after: bytes | None = None
        modified: cython.bint = True
        same: cython.bint = True
        names: frozenset[bytes] | None = None
        paths: Any = self._fallbacks.replaced
        changes: FieldChanges | None
        if has_operators(specification):
            changes = self._operators(specification)
            if changes is not None:
                names = changes.names
                paths = self._fallbacks.all_paths if changes.paths is None else changes.paths
                after = changes.apply(before)
                modified = after is not before
        elif _is_whole(specification):
            after = _replaced(specification, before)
            if after is not None and after == before:
                after = before
            modified = after is not before or not _begins_with_identity(specification)
        if after is None:
            judged = self._fallbacks.judge(number, before)
            if judged is None:
                return False
            after, names, paths, modified, same = judged
        elif after is not before:
            validate(after)
        if self._fallbacks.admits is not None and not self._fallbacks.admits(names, None):
            return False
        if not self._take(len(after)):
            return False
        if after != before:
            self._write(self._run_of(False, names, paths, same, key not in self._documents), number, rid, before, after)
        self._documents[key] = (rid, after)
        return self._done(1, modified)

    @cython.cfunc
    def _operators(self, specification: bytes) -> FieldChanges | None:
        """Return the changes of an update's document; None if the general update must decide."""
        if self._specification is None or self._specification != specification:
            self._changes = field_changes(specification)
            self._specification = specification
        return self._changes

    @cython.exceptval(check=False)
    def _take(self, size: cython.Py_ssize_t) -> cython.bint:
        """Reserve room for a document of that size; False if there is none."""
        self._remaining_bytes -= size
        return self._remaining_bytes >= 0

    def _done(self, matched: cython.int, modified: cython.int) -> cython.bint:
        """Count the statement as part of the batch; return True."""
        self.count += 1
        self.matched.append(matched)
        self.modified.append(modified)
        return True

    def _run_of(
        self, makes: cython.bint, names: frozenset[bytes] | None, paths: Any, same: cython.bint, first: cython.bint
    ) -> Written:
        """Return the run that a statement is written with; `first`: no earlier statement is on its document."""
        run: Written
        for run in reversed(self.runs):
            if (
                run.makes == makes
                and run.same_identity == same
                and (run.names is names or run.names == names)
                and (run.paths is paths or run.paths == paths)
            ):
                return run
            if self._in_order or not first:
                break
        run = Written(makes, names, paths, same)
        self.runs.append(run)
        return run

    def _write(self, run: Written, number: cython.Py_ssize_t, rid: bytes, before: bytes, after: bytes) -> cython.int:
        """Add a document to the run."""
        run.numbers.append(number)
        if not run.makes:
            run.record_ids.append(rid)
            run.before.append(before)
        run.after.append(after)
        self.size += len(after)
        return 0


def _is_plain(statement: Sequence[Any]) -> cython.bint:
    """True if the statement has only a filter, and a document as the update of one document."""
    return (
        not statement[2]
        and statement[1][0] == OBJECT
        and statement[4] is None
        and len(statement[5]) == 0
        and statement[6] is None
        and statement[7] is None
        and statement[8] is None
    )


@cython.exceptval(check=False)
def has_operators(specification: bytes) -> cython.bint:
    """True if the document has operators, by its first field, and is not a replacement."""
    return len(specification) > 5 and specification[5] == 0x24


def _is_whole(replacement: bytes) -> cython.bint:
    """True if a replacement is stored unchanged, but for its `_id`: no timestamp to fill in, no field to reject."""
    return b"$" not in replacement and _EMPTY_TIMESTAMP not in replacement


@cython.exceptval(check=False)
def _begins_with_identity(raw: bytes) -> cython.bint:
    return len(raw) > 8 and raw[5] == 0x5F and raw[6] == 0x69 and raw[7] == 0x64 and raw[8] == 0


@cython.cfunc
def _replaced(replacement: bytes, before: bytes) -> bytes | None:
    """Return the replacement with the `_id` of the old document; None if the general update must decide."""
    at: cython.Py_ssize_t = find(before, 0, len(before), b"_id")
    if at < 0:
        return None
    return _placed(replacement, before, at, value_end(before, before[at], at + 5, len(before)))


def _placed(document: bytes, source: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes | None:
    """Return the document with the `_id` that is the field [at, end) of `source` in front; None if it has one
    elsewhere, or another one.
    """
    own: cython.Py_ssize_t = find(document, 0, len(document), b"_id")
    size: cython.Py_ssize_t = end - at
    if own < 0:
        return b"".join(
            ((len(document) + size).to_bytes(4, "little"), part(source, at, end), part(document, 4, len(document)))
        )
    if own != 4 or value_end(document, document[4], 9, len(document)) != 4 + size:
        return None
    return document if part(document, 4, 4 + size) == part(source, at, end) else None


@cython.cfunc
def _identity(raw: bytes) -> Value:
    """Return the `_id` of a document."""
    at: cython.Py_ssize_t = find(raw, 0, len(raw), b"_id")
    assert at >= 0, "a stored document has an _id"
    return raw[at], part(raw, at + 5, value_end(raw, raw[at], at + 5, len(raw)))
