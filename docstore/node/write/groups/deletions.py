"""Group execution of delete statements that each address one `_id`."""

from __future__ import annotations

from dataclasses import dataclass, field

from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.kernel.match.predicate import Predicate
from docstore.node.write.delete import DeleteStatement
from docstore.node.write.groups.group import MOST_BYTES, IdentityGroup
from docstore.node.write.identity import Match, identity_in


@dataclass(slots=True)
class Deletions:
    """Evaluated delete statements: `removals` are the matches, `numbers` the statements they belong to."""

    matched: list[int] = field(default_factory=list)
    removals: list[Match] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    size: int = 0

    @property
    def count(self) -> int:
        return len(self.matched)

    @property
    def modified(self) -> list[int]:
        return [0] * len(self.matched)


class DeleteGroup(IdentityGroup[DeleteStatement, Deletions]):
    """Delete statements executed as a group."""

    def work_out(self, collection: Collection, end: int, owned: Predicate | None) -> Deletions:
        reader = self._target.reader
        deletions = Deletions()
        removed_keys: set[bytes] = set()
        for number in range(self.first, end):
            statement = self._all[number]
            identity = None if statement.multi or not statement.is_plain else identity_in(statement.filter)
            if identity is None:
                break
            key = encode_key(identity)
            match = None if key in removed_keys else collection.by_id(reader, identity)
            if match is not None:
                _, before = match
                if len(before) > LARGE_BYTES or deletions.size + len(before) > MOST_BYTES:
                    break
                if owned is not None and not owned.matches(before):
                    match = None
            deletions.matched.append(0 if match is None else 1)
            if match is not None:
                removed_keys.add(key)
                deletions.size += len(match[1])
                deletions.removals.append(match)
                deletions.numbers.append(number)
        return deletions

    def write(
        self, unit: WriteUnitOfWork, collection: Collection, deletions: Deletions, stmt_ids: list[int] | None
    ) -> None:
        ids = None if stmt_ids is None else [stmt_ids[number - self.first] for number in deletions.numbers]
        if not unit.remove_each(collection, deletions.removals, ids):
            for index, removal in enumerate(deletions.removals):
                unit.remove(collection, *removal, stmt_id=None if ids is None else ids[index])
