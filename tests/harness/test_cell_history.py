"""The checker of cells notices what quorums do not allow, and passes what they do."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.harness.cell_history import History, Write


@dataclass
class Story:
    """A history whose clock goes on by one second with each look."""

    seconds: float = 0.0
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History("row", clock=self.tick)

    def tick(self) -> float:
        self.seconds += 1
        return self.seconds

    def write(self, *, removes: bool = False, acknowledged: bool = True) -> Write:
        write = self.history.write("c", removes=removes)
        if acknowledged:
            write.end = self.tick()
        return write

    def read(self, write: Write | None) -> None:
        self.history.read("c", None if write is None else write.timestamp, self.tick())

    def clear(self, *, acknowledged: bool = True) -> None:
        clearance = self.history.clear()
        if acknowledged:
            clearance.end = self.tick()

    def faults(self) -> list[str]:
        return [fault.rpartition("): ")[2] for fault in self.history.check()]


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_quorums_promise_passes(story: Story) -> None:
    first = story.write()
    story.read(first)
    unknown = story.write(acknowledged=False)
    story.read(first)
    story.read(unknown)
    story.write(removes=True)
    story.read(None)
    assert story.faults() == []


def test_a_lost_write_is_noticed(story: Story) -> None:
    story.write()
    story.read(None)
    (fault,) = story.faults()
    assert "is lost" in fault


def test_a_step_back_is_noticed(story: Story) -> None:
    first, second = story.write(), story.write(acknowledged=False)
    story.read(second)
    story.read(first)
    (fault,) = story.faults()
    assert "was there before" in fault


def test_a_value_that_comes_back_after_its_deletion_is_noticed(story: Story) -> None:
    """The deletion is newer, so it does not matter that the write waited somewhere."""
    hinted = story.write()
    hinted.weak = True
    story.write(removes=True)
    story.read(hinted)
    (fault,) = story.faults()
    assert "was there before" in fault


def test_a_weak_write_need_not_be_seen_until_it_must(story: Story) -> None:
    hinted = story.write()
    hinted.weak = True
    story.read(None)
    assert story.faults() == []
    hinted.weak, hinted.seen_from = False, story.tick()
    story.read(None)
    (fault,) = story.faults()
    assert "is lost" in fault


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_clearance_takes_writes_away_and_they_stay_away(story: Story, acknowledged: bool) -> None:
    before = story.write()
    story.clear(acknowledged=acknowledged)
    story.read(None)
    assert story.faults() == []
    story.read(before)
    faults = story.faults()
    assert any("came back" in fault for fault in faults) == acknowledged


def test_what_is_written_after_a_clearance_stays(story: Story) -> None:
    story.clear()
    story.write()
    story.read(None)
    (fault,) = story.faults()
    assert "is lost" in fault
