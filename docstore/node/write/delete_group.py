"""Statements of a delete command that each ask for one `_id`, carried out side by side."""

from __future__ import annotations

from typing import NamedTuple

from docstore.bson.walk import Value
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import LARGE_BYTES
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.predicate import Predicate
from docstore.node.write.delete import DeleteStatement
from docstore.node.write.identity_group import MOST_BYTES, IdentityGroup
from docstore.node.write.search import Match, identity_in


class DeleteStep(NamedTuple):
    """What the statement with that number does. `found`: the document, None where there is none that is owned."""

    number: int
    identity: Value
    found: Match | None

    @property
    def meets(self) -> bool:
        return self.found is not None

    @property
    def size(self) -> int:
        return 0 if self.found is None else len(self.found[1])


class DeleteGroup(IdentityGroup[DeleteStatement, DeleteStep]):
    """Of a delete command."""

    def steps(self, collection: Collection, numbers: range, owned: Predicate | None) -> list[DeleteStep]:
        reader = self._target.reader
        steps: list[DeleteStep] = []
        gone: set[bytes] = set()
        size = 0
        for number in numbers:
            statement = self._all[number]
            identity = None if statement.multi or not statement.is_plain else identity_in(statement.filter)
            if identity is None:
                break
            key = encode_key(identity)
            found = None if key in gone else collection.by_id(reader, identity)
            if found is not None:
                _, before = found
                size += len(before)
                if len(before) > LARGE_BYTES or size > MOST_BYTES:
                    break
                if owned is not None and not owned.matches(before):
                    found = None
                else:
                    gone.add(key)
            steps.append(DeleteStep(number, identity, found))
        return steps

    def write(
        self, unit: WriteUnitOfWork, collection: Collection, steps: list[DeleteStep], stmt_ids: dict[int, int] | None
    ) -> None:
        removals = [step.found for step in steps if step.found is not None]
        ids = None if stmt_ids is None else [stmt_ids[step.number] for step in steps]
        if not unit.remove_each(collection, removals, ids):
            for place, removal in enumerate(removals):
                unit.remove(collection, *removal, stmt_id=None if ids is None else ids[place])

    def count(self, step: DeleteStep) -> tuple[int, int]:
        return int(step.meets), 0
