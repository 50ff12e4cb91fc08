"""Statements of a delete command that each ask for one `_id`, carried out side by side."""

from __future__ import annotations

from typing import NamedTuple

from docstore.bson.walk import Value
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import LARGE_BYTES
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

    def write(self, collection: Collection, steps: list[DeleteStep], stmt_ids: dict[int, int] | None) -> None:
        removals = [step.found for step in steps if step.found is not None]
        if not removals:
            return
        ids = None if stmt_ids is None else [stmt_ids[step.number] for step in steps if step.found is not None]
        unit = self._target.joined(collection, sum([len(before) for _, before in removals]))
        try:
            if not unit.remove_each(collection, removals, ids):
                for place, removal in enumerate(removals):
                    unit.remove(collection, *removal, stmt_id=None if ids is None else ids[place])
        except BaseException:
            unit.abort()
            raise

    def note(self, step: DeleteStep) -> int:
        target, deleted = self._target, int(step.found is not None)
        outcome = target.outcome
        if target.execution is not None:
            target.execution.lookup(step.identity, found=bool(deleted))
        if outcome.counts is not None and outcome.modified_counts is not None:
            outcome.counts.append(deleted)
            outcome.modified_counts.append(0)
        return deleted
