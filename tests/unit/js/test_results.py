"""What becomes of results between their worker and their place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import bson
import pytest

from docstore.bson import Value, to_python
from docstore.errors import Code, CommandError
from docstore.js import results
from docstore.js.results import InlineResults, KeptResults, reduce_with_existing
from docstore.js.workers import Workers
from docstore.query.value.collation import parse_collation
from tests.unit.js.functions import COUNT, Outcome, decoded, encoded, job, outcome, stream


def test_kept_results_come_back_as_they_were_from_memory_and_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "HELD_BYTES", 2000)
    documents = encoded({"_id": n, "value": "x" * n} for n in range(100))

    async def work() -> None:
        kept = KeptResults(tmp_path)
        for start in range(0, 100, 7):
            await kept.take(documents[start : start + 7])
            assert list(kept.documents()) == documents[: start + 7]
        assert list(tmp_path.iterdir()) == []
        kept.close()

    asyncio.run(work())


def test_what_is_too_much_for_a_reply_is_refused_as_soon_as_it_is() -> None:
    async def work() -> None:
        inline = InlineResults()
        for _ in range(16):
            await inline.take([bson.encode({"_id": 1, "value": "x" * 1_000_000})])
        with pytest.raises(CommandError) as error:
            await inline.take([bson.encode({"_id": 1, "value": "x" * 1_000_000})])
        assert error.value.code == Code.BSONObjectTooLarge

    asyncio.run(work())


def test_results_are_reduced_with_what_a_target_has(tmp_path: Path) -> None:
    target = {2: {"_id": 2, "value": 40, "more": "x"}, 3: {"_id": 3, "value": 50}, 4: {"_id": 4}}

    async def existing(keys: list[Value]) -> Sequence[bytes | None]:
        found = (target.get(to_python(key)) for key in keys)
        return [None if each is None else bson.encode(each) for each in found]

    async def work() -> Outcome:
        workers = Workers(1, spill=tmp_path / "workers")
        kept = KeptResults(tmp_path)
        await kept.take(encoded({"_id": n, "value": n} for n in range(1, 4)))
        work = job("emit(1, 1)", COUNT, "function (k, v) { return v * 10 }")
        found = await outcome(lambda sink: reduce_with_existing(workers, work, kept, existing, sink))
        kept.close()
        await workers.close()
        return found

    found = asyncio.run(work())
    assert [bson.decode(raw) for raw in found.results] == [
        {"_id": 1, "value": 1}, {"_id": 2, "value": 420.0}, {"_id": 3, "value": 530.0},
    ]  # fmt: skip
    assert found.counts.reduce == 2


@pytest.mark.parametrize("limits", [{}, {"spill": 500}])
def test_keys_that_a_collation_holds_equal_are_one_key(tmp_path: Path, limits: dict[str, int]) -> None:
    collation = parse_collation(bson.encode({"locale": "en", "strength": 2}))
    source = "function() { emit(this.k, 1); emit({k: this.k}, 1); emit(String(this.n % 7), 1) }"
    documents = [{"_id": n, "n": n, "k": ("a", "A", "b", "é", "B", "É")[n % 6]} for n in range(60)]

    async def work() -> Outcome:
        workers = Workers(1, spill=tmp_path)
        work = job(source, limits=limits, collation=collation)
        found = await outcome(lambda sink: workers.map_reduce(work, stream(encoded(documents), 5), sink))
        await workers.close()
        return found

    found = {str(key): value for key, value in decoded(asyncio.run(work()).results)}
    sevenths = {str(n): float(len(range(n, 60, 7))) for n in range(7)}
    assert found == sevenths | {key: 20.0 for name in "abé" for key in (name, str({"k": name}))}
