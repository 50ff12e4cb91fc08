"""What a hold costs, and how long released ones are remembered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.sharding.ddl.operation import HOLDS, RELEASED_HOLDS, REMEMBERED_SECONDS, Blocks, Hold
from mongod.migration.holds import MAX_FORGOTTEN_AT_ONCE, Holds
from mongod.migration.records import MigrationRecords
from tests.unit.node.local import LocalNode


class Scene:
    """The holds of one node; `seconds` counts on."""

    def __init__(self) -> None:
        self.local = LocalNode(replicated=True)
        self.holds = Holds(self.local.node)
        self.records = MigrationRecords(self.local.node)
        self.seconds = 1_000_000

    def hold(self, number: int, namespace: str = "test.c") -> Hold:
        operation = Binary(number.to_bytes(16, "big"), 4)
        return Hold(operation=operation, namespace=namespace, blocks=Blocks.EVERYTHING, seconds=self.seconds)

    def take_and_release(self, number: int) -> None:
        self.holds.take(self.records, self.hold(number))
        self.holds.release(self.records, self.hold(number))

    def stored(self, namespace: str) -> list[Hold]:
        collection = self.local.node.store.collection(namespace)
        return (
            [] if collection is None else [Hold.from_raw(raw) for raw in collection.documents(self.local.node.engine)]
        )


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.holds.stop()


def test_a_hold_is_decoded_as_often_however_many_there_have_been(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, from_raw = [0], Hold.from_raw

    def counted(raw: bytes) -> Hold:
        decoded[0] += 1
        return from_raw(raw)

    monkeypatch.setattr(Hold, "from_raw", staticmethod(counted))
    costs = []
    for number in range(50):
        before = decoded[0]
        scene.take_and_release(number)
        costs.append(decoded[0] - before)
    assert costs[-1] <= costs[1]


def test_a_released_hold_is_remembered_for_an_hour(scene: Scene) -> None:
    scene.take_and_release(1)
    assert (scene.stored(HOLDS), scene.holds.any) == ([], False)
    scene.seconds += REMEMBERED_SECONDS
    scene.take_and_release(2)
    with pytest.raises(CommandError) as refused:
        scene.holds.take(scene.records, scene.hold(1))
    assert refused.value.code == Code.OperationFailed
    scene.seconds += 1
    scene.take_and_release(3)
    assert [int.from_bytes(hold.operation, "big") for hold in scene.stored(RELEASED_HOLDS)] == [2, 3]


def test_what_is_forgotten_at_once_is_bounded(scene: Scene) -> None:
    for number in range(MAX_FORGOTTEN_AT_ONCE + 5):
        scene.take_and_release(number)
    scene.seconds += REMEMBERED_SECONDS + 1
    scene.take_and_release(1_000)
    assert len(scene.stored(RELEASED_HOLDS)) == 6


def test_what_an_earlier_version_has_released_does_not_stand(scene: Scene) -> None:
    released = {**scene.hold(1).document(), "released": True}
    scene.records.write((HOLDS, released))
    scene.holds.load()
    assert not scene.holds.any
    with pytest.raises(CommandError):
        scene.holds.take(scene.records, scene.hold(1))
    scene.seconds += REMEMBERED_SECONDS + 1
    scene.take_and_release(2)
    assert scene.stored(HOLDS) == []
