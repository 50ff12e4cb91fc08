"""Fills data directories in lives that end as a seed says, and tells what they must hold then."""

from __future__ import annotations

import json
import random
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docstore.collection.store import Store
from docstore.storage import opening
from tests.unit.collection.building import doc, insert, make, remove, spec, update

_NAMES = ("a.one", "a.two", "b.three", "b.four")


@dataclass
class Expectation:
    """What a directory must hold: by namespace and `_id`, the acknowledged version, and those written since."""

    acknowledged: dict[str, dict[str, int]] = field(default_factory=dict)
    now: dict[str, dict[str, int]] = field(default_factory=dict)
    later: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    written: dict[str, dict[str, int]] = field(default_factory=dict)
    """The newest version ever, also of what was removed; 0 stands for a removal."""
    dropped: list[str] = field(default_factory=list)

    def put(self, ns: str, identity: int, version: int) -> None:
        key = str(identity)
        self.written.setdefault(ns, {})[key] = max(version, self.written.get(ns, {}).get(key, 0))
        if version:
            self.now.setdefault(ns, {})[key] = version
        else:
            self.now[ns].pop(key, None)
        self.later.setdefault(ns, {}).setdefault(key, []).append(version)

    def flushed(self) -> None:
        self.acknowledged = {ns: dict(documents) for ns, documents in self.now.items()}
        self.later = {}


def read_expectation(path: Path) -> Expectation:
    file = path / "expected.json"
    return Expectation(**json.loads(file.read_text())) if file.exists() else Expectation()


def write_history(path: Path, seed: int) -> dict[str, Any]:
    """Fill a directory in one life, which ends as the seed says; return what it holds then. Runs in a child."""
    rng = random.Random(seed)
    expected = read_expectation(path)
    engine = opening.open_directory(str(path / "db"), cache_bytes=1 << 20)
    store = Store(engine, clock=time.time)
    if rng.random() < 0.5 or (path / "member").exists():
        store.attach_oplog(1 << 24)
        (path / "member").touch()
    for ns in _NAMES:
        if store.collection(ns) is None and rng.random() < 0.8:
            make(store, ns, indexes=(spec(("v", 1)),))
    version = max((v for docs in expected.written.values() for v in docs.values()), default=0)
    for _ in range(rng.choice((3, 40, 150))):
        version += 1
        ns = rng.choice(_NAMES)
        coll = store.collection(ns)
        if coll is None:
            continue
        identity = rng.randrange(400)
        present = str(identity) in expected.now.get(ns, {})
        raw = doc(identity, ns=ns, v=version, noise=rng.randbytes(rng.choice((10, 300, 3000))))
        if not present:
            insert(store, coll, raw)
            expected.put(ns, identity, version)
        elif rng.random() < 0.3:
            remove(store, coll, identity)
            expected.put(ns, identity, 0)
        else:
            update(store, coll, raw)
            expected.put(ns, identity, version)
        chance = rng.random()
        if chance < 0.15:
            engine.flush()
            expected.flushed()
        elif chance < 0.17:
            engine.checkpoint(str(path / "checkpoint"))
            shutil.rmtree(path / "checkpoint")
        elif chance < 0.18:
            build_index(store, ns)
    if rng.random() < 0.5:
        engine.flush()
        expected.flushed()
    if rng.random() < 0.3:
        engine.close()
        expected.flushed()
    (path / "expected.json").write_text(json.dumps(vars(expected)))
    return vars(expected)


def build_index(store: Store, ns: str) -> None:
    """Build an index by sorted files."""
    coll = store.collection(ns)
    assert coll is not None
    name = f"f{len(coll.indexes)}_1"
    if name in coll.indexes:
        return
    build = store.build_index(coll, [spec((name[:-2], 1))])
    while not build.step(float("inf")):
        pass
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
