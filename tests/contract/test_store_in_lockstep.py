"""Random units on stores over both engines and on a follower of the oplog, held against a plain model, with rollback.

The model is a dictionary of dictionaries. After every step all stores hold exactly what the model says, every
collection is sound, and whatever is rolled back is as it was after the entry that remains last.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from docstore.bson import from_python
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.storage import open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, doc, entries, plain, spec, ticking

Model = dict[str, dict[int, dict[str, Any]]]

NAMES = st.sampled_from(["db.a", "db.b", "db.c"])
VALUES = st.one_of(st.integers(0, 4), st.lists(st.integers(0, 4), max_size=3), st.none())
FIELDS = st.dictionaries(st.sampled_from(["u", "m", "s"]), VALUES, max_size=3)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "remove"]), NAMES, st.integers(0, 7), FIELDS),
    min_size=1,
    max_size=6,
)
INDEXES = {
    "u": spec(("u", 1), unique=True, sparse=True),
    "m": spec(("m", 1), ("s", -1)),
    "s": spec(("s", 1)),
}


class Stores(RuleBasedStateMachine):
    """One store over each engine doing the same, and a third one following the first one's oplog."""

    @initialize()
    def open(self) -> None:
        self.path = Path(tempfile.mkdtemp())
        self.engines = [
            open_engine("inMemory", ""),
            open_engine("rocksdb", str(self.path)),
            open_engine("inMemory", ""),
        ]
        self.clocks = [ticking() for _ in range(3)]
        self.stores = [self.store(place) for place in range(3)]
        self.model: Model = {}
        # What stood after each entry that may still be undone.
        self.history: list[tuple[OpTime, Model]] = []
        self.unit(lambda store, unit: unit.noop(doc(0)), [self.model])

    def store(self, place: int) -> Store:
        store = Store(self.engines[place], clock=self.clocks[place])
        store.attach_oplog(2_000)
        return store

    def unit(self, work: Callable[[Store, WriteUnitOfWork], None], states: list[Model]) -> None:
        """Do the same in a unit of both leading stores, then let the follower follow."""
        last = self.stores[0].last_optime
        for store in self.stores[:2]:
            with store.unit() as unit:
                work(store, unit)
                unit.commit()
        new = entries(self.stores[0], last.timestamp)
        assert len(new) == len(states)
        for entry, state in zip(new, states, strict=True):
            apply_entry(self.stores[2], entry)
            self.history.append((entry_optime(entry), deepcopy(state)))
        self.model = deepcopy(states[-1]) if states else self.model

    @rule(operations=OPERATIONS, abort=st.booleans())
    def write(self, operations: list[tuple[str, str, int, dict[str, Any]]], abort: bool) -> None:
        if abort:
            for store in self.stores[:2]:
                with store.unit() as unit:
                    self.run(store, unit, operations, deepcopy(self.model))
            return
        states: list[list[Model]] = []

        def work(store: Store, unit: WriteUnitOfWork) -> None:
            states.append(self.run(store, unit, operations, deepcopy(self.model)))

        last = self.stores[0].last_optime
        for store in self.stores[:2]:
            with store.unit() as unit:
                work(store, unit)
                unit.commit()
        assert states[0] == states[1]
        new = entries(self.stores[0], last.timestamp)
        assert len(new) == len(states[0])
        for entry, state in zip(new, states[0], strict=True):
            apply_entry(self.stores[2], entry)
            self.history.append((entry_optime(entry), state))
            self.model = deepcopy(state)

    def run(
        self, store: Store, unit: WriteUnitOfWork, operations: list[tuple[str, str, int, dict[str, Any]]], model: Model
    ) -> list[Model]:
        """Do the operations on one store; the model after each that was logged."""
        states: list[Model] = []
        for kind, ns, identity, fields in operations:
            coll = store.collection(ns)
            if coll is None:
                coll = store.create_collection(unit, ns)
                model[ns] = {}
                states.append(deepcopy(model))
            found = coll.by_id(unit, from_python(identity))
            assert (None if found is None else plain(found[1])) == model[ns].get(identity)
            try:
                if kind == "remove":
                    if found is None:
                        continue
                    unit.remove(coll, *found)
                    del model[ns][identity]
                elif found is None:
                    unit.insert(coll, doc(identity, **fields))
                    model[ns][identity] = {"_id": identity, **fields}
                else:
                    unit.replace(coll, *found, doc(identity, **fields))
                    model[ns][identity] = {"_id": identity, **fields}
            except CommandError as error:
                if error.code not in (Code.DuplicateKey, Code.CannotIndexParallelArrays):
                    raise
                continue
            states.append(deepcopy(model))
        return states

    @rule(ns=NAMES, which=st.sampled_from(sorted(INDEXES)))
    def index(self, ns: str, which: str) -> None:
        """Build an index (it may refuse), or drop it when it is there."""
        coll = self.stores[0].collection(ns)
        if coll is None:
            return
        wanted = INDEXES[which]
        if wanted.name in coll.indexes:
            self.unit(
                lambda store, unit: store.drop_index(unit, store.catalog.collections[ns], wanted.name), [self.model]
            )
            return
        builds = []
        outcomes = []
        for store in self.stores[:2]:
            build = store.build_index(store.catalog.collections[ns], [wanted])
            try:
                while not build.step(float("inf")):
                    pass
                builds.append(build)
                outcomes.append(0)
            except CommandError as error:
                build.abort()
                outcomes.append(error.code)
        assert outcomes[0] == outcomes[1]
        if len(builds) == 2:
            pending = iter(builds)
            self.unit(lambda store, unit: next(pending).finish(unit), [self.model])

    @rule(ns=NAMES)
    def drop(self, ns: str) -> None:
        if ns in self.model:
            after = {name: deepcopy(held) for name, held in self.model.items() if name != ns}
            self.unit(lambda store, unit: store.drop_collection(unit, ns), [after])

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        if old in self.model and old != new:
            after = deepcopy(self.model)
            after[new] = after.pop(old)
            self.unit(lambda store, unit: store.rename_collection(unit, old, new, drop_target=True), [after])

    @precondition(lambda self: len(self.history) > 1)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.history) - 1))
        optime, state = self.history[place]
        for store in self.stores:
            assert roll_back(store, optime) == len(self.history) - 1 - place
            assert store.last_optime == optime
        del self.history[place + 1 :]
        self.model = deepcopy(state)

    @rule()
    def commit_point(self) -> None:
        """All that is written is final now: the oplog may shrink and dropped trees may go."""
        last = self.history[-1]
        for store in self.stores:
            store.discard_undo(last[0])
            assert store.oplog is not None
            store.oplog.truncate_old()
            assert store.reclaim(float("inf"))
            assert not store.catalog.garbage
        self.history = [last]

    @rule()
    def restart(self) -> None:
        self.engines[1].close()
        self.engines[1] = open_engine("rocksdb", str(self.path))
        self.stores = [self.store(place) for place in range(3)]

    @invariant()
    def stores_are_sound_and_hold_what_the_model_says(self) -> None:
        for store in getattr(self, "stores", []):
            check(store)
            held = {
                ns: {found["_id"]: found for found in map(plain, coll.documents(store.engine))}
                for ns, coll in store.catalog.collections.items()
            }
            assert held == self.model
            stamps = [entry_optime(entry).timestamp for entry in entries(store)]
            assert stamps == sorted(set(stamps))

    def teardown(self) -> None:
        for engine in getattr(self, "engines", []):
            engine.close()
        if hasattr(self, "path"):
            shutil.rmtree(self.path)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
