"""What a shard decides about a request to move a range, before there is a migration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.sharding.chunks import ChunkMap, split_chunk
from docstore.sharding.key import KeyRange
from docstore.sharding.migration import Migration
from docstore.sharding.move_request import (
    EVERYTHING,
    Answer,
    Begin,
    Extent,
    FindPart,
    Join,
    Measure,
    Measured,
    MoveRequest,
    Moving,
    PartFound,
    ReadRouting,
    RoutingRead,
    Situation,
    Split,
    SplitDone,
)
from docstore.sharding.routing import CollectionRouting
from docstore.sharding.version import Lastmod
from tests.unit.sharding.maps import EPOCH, KEY, at, chunk_map

UUID_ = Binary.from_uuid(UUID(int=7))
BUSY = CommandError(Code.ConflictingOperationInProgress, "busy")


def routed(chunks: ChunkMap) -> CollectionRouting:
    return CollectionRouting("t.c", UUID_, unique=False, chunks=chunks)


ROUTED = routed(chunk_map((10, 20), ("a", "a", "b")))
LOW, MIDDLE, TOP = ROUTED.chunks


def request(bounds: KeyRange, extent: Extent = EVERYTHING, **changed: Any) -> MoveRequest:
    made = MoveRequest(
        namespace="t.c", epoch=EPOCH, low=bounds.min.raw, high=bounds.max.raw, to="b", extent=extent
    )  # fmt: skip
    return replace(made, **changed)


def moving(bounds: KeyRange, extent: Extent = EVERYTHING, **changed: Any) -> Moving:
    made = Moving(request(bounds, extent, **changed), "a")
    assert made.start() == ReadRouting()
    return made


def migration(bounds: KeyRange, to: str = "b") -> Migration:
    return Migration(
        id=UUID_, namespace="t.c", uuid=UUID_, epoch=EPOCH, key=KEY, range=bounds, lastmod=Lastmod(1, 0),
        donor="a", recipient=to,
    )  # fmt: skip


def refusal(effect: object) -> int:
    assert isinstance(effect, Answer)
    assert effect.error is not None
    return effect.error.code


def test_a_chunk_of_any_size_begins_at_once() -> None:
    assert moving(MIDDLE.range).receive(RoutingRead(ROUTED), Situation()) == Begin(ROUTED, MIDDLE)


@pytest.mark.parametrize(
    ("changed", "found", "code"),
    [
        ({}, None, Code.StaleEpoch),
        ({"epoch": 1}, ROUTED, Code.StaleEpoch),
        ({"to": "c", "low": TOP.min.raw, "high": TOP.max.raw}, ROUTED, Code.ConflictingOperationInProgress),
        ({"high": TOP.max.raw}, ROUTED, Code.ConflictingOperationInProgress),
        ({"low": LOW.min.raw}, ROUTED, Code.ConflictingOperationInProgress),
    ],
)
def test_what_is_not_one_chunk_of_this_shard_is_refused(changed: Any, found: Any, code: int) -> None:
    assert refusal(moving(MIDDLE.range, **changed).receive(RoutingRead(found), Situation())) == code


def test_what_the_receiver_owns_needs_no_move_even_while_others_run() -> None:
    assert moving(TOP.range).receive(RoutingRead(ROUTED), Situation((), BUSY)) == Answer()


def test_a_request_sent_again_joins_its_migration_and_no_other() -> None:
    running = migration(MIDDLE.range)
    situation = Situation((running,), BUSY)
    assert moving(MIDDLE.range).receive(RoutingRead(ROUTED), situation) == Join(running)
    assert moving(LOW.range).receive(RoutingRead(ROUTED), situation) == Answer(BUSY)
    assert moving(MIDDLE.range, to="c").receive(RoutingRead(ROUTED), situation) == Answer(BUSY)


def test_a_chunk_is_measured_only_when_it_may_go_and_judged_again_afterwards() -> None:
    extent = Extent(most_bytes=100)
    assert moving(LOW.range, extent).receive(RoutingRead(ROUTED), Situation((), BUSY)) == Answer(BUSY)
    for size, situation, expected in (
        (130, Situation(), Begin(ROUTED, LOW)),
        (130, Situation((), BUSY), Answer(BUSY)),
        (130, Situation((migration(LOW.range),), BUSY), Join(migration(LOW.range))),
    ):
        made = moving(LOW.range, extent)
        assert made.receive(RoutingRead(ROUTED), Situation()) == Measure(ROUTED, LOW.range, 130)
        assert made.receive(Measured(size), situation) == expected
    made = moving(LOW.range, extent)
    made.receive(RoutingRead(ROUTED), Situation())
    assert refusal(made.receive(Measured(131), Situation())) == Code.ChunkTooBig


@pytest.mark.parametrize("upper", [False, True])
def test_a_part_is_split_off_and_then_moves_as_a_chunk(upper: bool) -> None:
    made = moving(MIDDLE.range, Extent(part_bytes=100, upper=upper))
    found = made.receive(RoutingRead(ROUTED), Situation())
    assert found == FindPart(ROUTED, MIDDLE.range, 100, 130, upper)
    part = KeyRange(at(15), MIDDLE.max) if upper else KeyRange(MIDDLE.min, at(15))
    assert made.receive(PartFound(part), Situation()) == Split(ROUTED, MIDDLE, [at(15)])
    assert made.receive(SplitDone(), Situation()) == ReadRouting()
    after = routed(ROUTED.chunks.updated(split_chunk(MIDDLE, [at(15)], Lastmod(1, 2))))
    begun = made.receive(RoutingRead(after), Situation())
    assert begun == Begin(after, after.chunks.chunk_at(at(16 if upper else 14).key))


def test_a_part_asked_for_again_is_found_where_the_first_request_has_left_it() -> None:
    after = routed(ROUTED.chunks.updated(split_chunk(MIDDLE, [at(15)], Lastmod(1, 2))))
    part = KeyRange(MIDDLE.min, at(15))
    extent = Extent(part_bytes=100)
    running = Situation((migration(part),), BUSY)
    assert moving(MIDDLE.range, extent).receive(RoutingRead(after), running) == Join(migration(part))
    made = moving(MIDDLE.range, extent)
    assert made.receive(RoutingRead(after), Situation()) == FindPart(after, part, 100, 130, upper=False)
    assert made.receive(PartFound(part), Situation()) == Begin(after, after.chunks.chunk_at(at(12).key))
    gone = routed(after.chunks.updated([replace(after.chunks.chunk_at(at(12).key), shard="b", lastmod=Lastmod(2, 0))]))
    assert moving(MIDDLE.range, extent).receive(RoutingRead(gone), Situation()) == Answer()


def test_nothing_is_split_that_could_not_move_then() -> None:
    made = moving(MIDDLE.range, Extent(part_bytes=100))
    made.receive(RoutingRead(ROUTED), Situation())
    assert made.receive(PartFound(KeyRange(MIDDLE.min, at(15))), Situation((), BUSY)) == Answer(BUSY)
    made = moving(MIDDLE.range, Extent(part_bytes=100))
    made.receive(RoutingRead(ROUTED), Situation())
    assert refusal(made.receive(PartFound(None), Situation())) == Code.ChunkTooBig


def test_a_range_inside_a_chunk_is_cut_out_of_it() -> None:
    made = moving(KeyRange(at(12), at(15)))
    assert made.receive(RoutingRead(ROUTED), Situation()) == Split(ROUTED, MIDDLE, [at(12), at(15)])
