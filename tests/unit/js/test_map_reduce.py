"""Map-reduce in real worker processes: right answers, wrong functions, limits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import bson
import pytest
from bson.int64 import Int64

from docstore.errors import CommandError
from docstore.js.job import Counts, Limits, MapReduceJob
from docstore.js.workers import Workers
from tests.harness.waiting import wait_until
from tests.unit.js.functions import COUNT, Outcome, code, decoded, encoded, job, outcome, stream

T = TypeVar("T")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def workers(loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    async def make() -> Workers:
        return Workers(2, spill=tmp_path_factory.mktemp("spill"))

    workers = loop.run(make())
    loop.run(workers.start())
    yield workers
    loop.run(workers.close())


@pytest.fixture
def run(loop: asyncio.Runner, workers: Workers) -> Callable[..., Outcome]:
    def run(work: MapReduceJob, documents: list[dict[str, Any]], **rest: Any) -> Outcome:
        return loop.run(outcome(lambda sink: workers.map_reduce(work, stream(encoded(documents)), sink, **rest)))

    return run


Run = Callable[..., Outcome]
ONE: list[dict[str, Any]] = [{"_id": 1, "n": 5}]
TAGS = "function() { for (index in this.tags) { emit(this.tags[index], 1); } }"


def tagged(count: int) -> list[dict[str, Any]]:
    random = Random(7)
    tags = [f"tag{number}" for number in range(42)] + [None]
    return [
        {"_id": number, "text": "x" * 20, "tags": random.choices(tags, k=random.randint(0, 5))}
        for number in range(count)
    ]


def test_counting_tags_gives_every_tag_its_count(run: Run) -> None:
    posts = tagged(5000)
    tally = Counter(tag for post in posts for tag in post["tags"])
    result = run(job(TAGS), posts)
    assert dict(decoded(result.results)) == tally
    assert (result.counts.input, result.counts.emit, result.counts.output) == (5000, tally.total(), 43)


def test_null_and_undefined_are_one_key(run: Run) -> None:
    result = run(job("function() { emit(null, 1); emit(undefined, 1); emit(this.nothing, 1) }"), ONE)
    assert decoded(result.results) == [(None, 3.0)]


def test_keys_that_compare_equal_share_a_group_and_the_first_is_kept(run: Run) -> None:
    source = """function() {
      emit(NumberLong(1), 1); emit(1, 1); emit(NumberDecimal('1.0'), 1); emit({a: 1}, 1);
      emit({a: NumberLong(1)}, 1) }"""
    [(number, two), (document, three)] = decoded(run(job(source), ONE).results)
    assert (number, type(number), two, document, three) == (1, Int64, 3.0, {"a": 1.0}, 2.0)


def test_results_come_in_the_order_of_mongodb(run: Run) -> None:
    source = """function() {
      [true, 'b', {x: 1}, [1], 2, null, ObjectId('4f4221149a6777895a000000'), ISODate('2020-01-01'), 'a', 'B',
       -1, MinKey, NumberDecimal('1.5'), MaxKey, /r/, BinData(0, 'aGk='), '\\ue000', '\\ud83d\\ude00'
      ].forEach(function(key) { emit(key, 1) }) }"""
    keys = [key for key, _ in decoded(run(job(source), ONE).results)]
    assert keys == [
        bson.MinKey(), None, -1.0, bson.Decimal128("1.5"), 2.0, "B", "a", "b", "\ue000", "\U0001f600", {"x": 1.0},
        [1.0], b"hi", bson.ObjectId("4f4221149a6777895a000000"), True, datetime(2020, 1, 1), bson.Regex("r", 0),
        bson.MaxKey(),
    ]  # fmt: skip


def test_reduce_is_not_called_for_single_values(run: Run) -> None:
    result = run(job("function() { emit(this._id, 'alone') }", "function() { throw 'called' }"), ONE)
    assert decoded(result.results) == [(1.0, "alone")]
    assert result.counts == Counts(input=1, emit=1, reduce=0, output=1)


def test_reduce_sees_at_most_a_thousand_values(run: Run) -> None:
    source = "function(k, values) { return values.length }"
    result = run(job("function() { for (var i = 0; i < 999 + this.n; i++) emit(1, 0) }", source), [{"n": 1}])
    assert decoded(result.results) == [(1.0, 1000.0)]


def test_emitted_objects_are_copies(run: Run) -> None:
    source = "function() { var v = {n: 0}; for (var i = 0; i < 3; i++) { v.n = i; emit(i, v) } }"
    assert [value["n"] for _, value in decoded(run(job(source), ONE).results)] == [0.0, 1.0, 2.0]


def test_finalize_runs_once_for_every_key(run: Run) -> None:
    work = job(
        "function() { emit('a', 1); emit('a', 2); emit('b', 3) }", finalize="function(k, v) { return {k: k, v: v} }"
    )
    assert decoded(run(work, ONE).results) == [("a", {"k": "a", "v": 3.0}), ("b", {"k": "b", "v": 3.0})]


def test_scope_and_functions_in_it_are_global(run: Run) -> None:
    scope = bson.encode({"q": 5, "twice": bson.Code("function(x) { return 2 * x }")})
    work = job("function() { emit(1, twice(q)); q++; emit(2, q) }", scope=scope)
    assert decoded(run(work, ONE).results) == [(1.0, 10.0), (2.0, 6.0)]


def test_code_with_scope_brings_its_scope_along(run: Run) -> None:
    scoped = bson.encode({"f": bson.Code("function() { emit(1, q) }", {"q": 8})})
    work = MapReduceJob(map=(15, scoped[7:-1]), reduce=code(COUNT))
    assert decoded(run(work, ONE).results) == [(1.0, 8.0)]


@pytest.mark.parametrize(
    "source",
    [
        "emit(1, 2)",
        "return emit(1, 2);",
        "() => emit(1, 2)",
        "function named() { emit(1, 2) };",
        "// why\nfunction() { emit(1, 2) }",
        "emit(1, 2); while (false);",
    ],
)
def test_functions_may_be_written_in_any_form(run: Run, source: str) -> None:
    assert decoded(run(job(source), ONE).results) == [(1.0, 2.0)]


def test_whole_documents_keep_their_types(run: Run) -> None:
    document = {"_id": 1, "i": 5, "d": 5.0, "l": Int64(7), "o": {"x": 1}, "when": datetime(2020, 1, 1)}
    [raw] = run(job("function() { emit(1, this) }"), [document]).results
    assert bson.decode(raw)["value"] == document
    assert isinstance(bson.decode(raw)["value"]["i"], int)


def test_spilling_to_disk_changes_nothing(run: Run, workers: Workers) -> None:
    posts = [{"_id": number, "group": number % 700} for number in range(6000)]
    source = "function() { emit(this.group, 1); emit('g' + this.group % 10, {n: 1}) }"
    reduce_source = "function(k, v) { return typeof v[0] == 'number' ? Array.sum(v) : {n: Array.sum(v.map(x => x.n))} }"
    finalize = "function(k, v) { return [v] }"
    whole = run(job(source, reduce_source, finalize), posts)
    spilled = run(job(source, reduce_source, finalize, limits={"spill": 20_000}), posts)
    assert spilled.results == whole.results
    assert spilled.counts.reduce > whole.counts.reduce
    assert (spilled.counts.emit, spilled.counts.output) == (whole.counts.emit, whole.counts.output)


def test_partial_results_merge_into_the_whole(loop: asyncio.Runner, workers: Workers, run: Run) -> None:
    work = job(TAGS, finalize="function(k, v) { return {n: v} }")
    posts = tagged(900)
    parts = [run(work, posts[start : start + 300], partial=True) for start in (0, 300, 600)]
    assert [part.counts.output for part in parts] == [len(part.results) for part in parts]
    merged = loop.run(
        outcome(lambda sink: workers.merge_reduce(work, [stream(part.results, 7) for part in parts], sink))
    )
    assert merged.results == run(work, posts).results
    assert merged.counts == Counts(input=0, emit=0, reduce=43, output=43)


def test_merging_nothing_gives_nothing(loop: asyncio.Runner, workers: Workers) -> None:
    merged = loop.run(outcome(lambda sink: workers.merge_reduce(job(TAGS), [stream([]), stream([])], sink)))
    assert merged == Outcome(Counts(), [])


def test_numbers_that_no_function_touched_keep_their_type_through_a_merge(
    loop: asyncio.Runner, workers: Workers
) -> None:
    part = encoded([{"_id": 1, "value": 5}])
    merged = loop.run(outcome(lambda sink: workers.merge_reduce(job(TAGS), [stream(part)], sink)))
    assert merged.results == part


WRONG = [
    ("function() { throw new Error('boo') }", 139, "Error: boo :\n@:1:"),
    ("function() { throw 'x' }", 8, "uncaught exception: x"),
    ("function() { throw {code: 5} }", 139, "[object Object] :\nundefined"),
    ("function() { nosuch() }", 139, "ReferenceError: nosuch is not defined :\n@:1:15\n"),
    ("function() { emit(1) }", 31220, "emit takes 2 args :\n@:1:15\n"),
    ("function() { this is bad", 139, "SyntaxError: "),
    ("", 139, "SyntaxError: "),
    ("function() { function f() { f() } f() }", 139, "RangeError: Maximum call stack size exceeded"),
    ("function() { emit(1, 10n) }", 2, "cannot convert a bigint to BSON"),
    ("function() { var a = []; a[0] = a; emit(1, a) }", 15, "document is nested more than 180 levels deep"),
    ("function() { emit(1, 'x'.repeat(17e6)) }", 10334, "a result of map-reduce is"),
    ("function() { new Uint8Array(2 ** 32) }", 139, "RangeError"),
]


@pytest.mark.parametrize(("source", "number", "message"), WRONG)
def test_failures_of_user_code_are_command_errors(run: Run, source: str, number: int, message: str) -> None:
    with pytest.raises(CommandError) as error:
        run(job(source), ONE)
    assert (error.value.code, error.value.message[: len(message)]) == (number, message)


@pytest.mark.parametrize("broken", ["reduce_source", "finalize"])
def test_reduce_and_finalize_may_fail_too(run: Run, broken: str) -> None:
    with pytest.raises(CommandError, match=r"^Error: red :\n@:1:\d+\n$"):
        run(job("emit(1, 1); emit(1, 2)", **{broken: "function() { throw new Error('red') }"}), ONE)


@pytest.mark.parametrize(
    "source",
    [
        "while (true);",
        "(async () => { while (true) await null })()",
        "/(x+x+)+y/.test('x'.repeat(40))",
        "sleep(60000)",
        "try { while (true); } finally { while (true); }",
    ],
)
def test_time_up_interrupts_any_loop(run: Run, source: str) -> None:
    with pytest.raises(CommandError) as error:
        run(job(f"function() {{ {source} }}", limits={"seconds": 0.3}), ONE)
    assert error.value.code == 11601
    assert decoded(run(job("emit(1, 1)"), ONE).results) == [(1.0, 1.0)]


@pytest.mark.parametrize(
    "source",
    [
        "var all = []; while (true) all.push({n: all.length})",
        "var all = []; while (true) all.push(new Uint8Array(1e7).fill(1))",
    ],
)
def test_memory_is_bounded(run: Run, source: str) -> None:
    with pytest.raises(CommandError) as error:
        run(job(f"function() {{ {source} }}", limits={"heap": 64 << 20, "data": 1 << 30}), ONE)
    assert error.value.code == 139
    assert decoded(run(job("emit(1, 1)"), ONE).results) == [(1.0, 1.0)]


def test_nothing_of_one_operation_is_seen_by_the_next(run: Run) -> None:
    with pytest.raises(CommandError):
        run(job("function() { globalThis.left = 1; Array.prototype.map = null; Object.prototype.x = 1 }"), ONE)
    assert decoded(run(job("emit(typeof left + typeof Array.prototype.map + typeof {}.x, 1)"), ONE).results) == [
        ("undefinedfunctionundefined", 1.0)
    ]


def test_the_bridge_and_dangerous_globals_are_out_of_reach(run: Run) -> None:
    names = ["Atomics", "SharedArrayBuffer", "WebAssembly", "setTimeout", "entry", "control", "step", "console"]
    source = (
        f"{names!r}.forEach(function(name) {{ emit(name, typeof globalThis[name]) }}); emit('caller', mapper.caller)"
    )
    found = dict(decoded(run(job(f"function mapper() {{ {source} }}"), ONE).results))
    assert found == dict.fromkeys(names, "undefined") | {"caller": None}


def test_what_user_code_prints_is_handed_over(loop: asyncio.Runner, tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        printed: list[str] = []
        workers = Workers(1, spill=tmp_path, on_print=printed.append)
        await outcome(
            lambda sink: workers.map_reduce(job("print('hi', {a: 1}); printjson([1])"), stream(encoded(ONE)), sink)
        )
        await workers.close()
        return printed

    assert loop.run(scenario()) == ['hi { "a" : 1 }\n[ 1 ]\n']


def test_nothing_is_left_on_disk(loop: asyncio.Runner, tmp_path: Path) -> None:
    left_by_another = tmp_path / "worker-killed" / "mapreduce-1"
    left_by_another.mkdir(parents=True)

    async def scenario() -> None:
        workers = Workers(1, spill=tmp_path)
        await workers.start()
        assert not left_by_another.exists()
        spilling = job("if (this.n == 999) while (true); emit(this.n, 1)", limits={"spill": 1000, "seconds": 1.0})
        with pytest.raises(CommandError):
            await outcome(
                lambda sink: workers.map_reduce(spilling, stream(encoded({"n": n} for n in range(1000))), sink)
            )
        await workers.close()

    loop.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_operation_stops_at_once_and_the_pool_goes_on(loop: asyncio.Runner, workers: Workers) -> None:
    async def scenario() -> Outcome:
        endless = asyncio.create_task(
            outcome(lambda sink: workers.map_reduce(job("while (true);"), stream(encoded(ONE)), sink))
        )
        result = await outcome(lambda sink: workers.map_reduce(job("emit(1, 1)"), stream(encoded(ONE)), sink))
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        return result

    assert decoded(loop.run(scenario()).results) == [(1.0, 1.0)]


def test_a_failing_source_of_documents_fails_the_operation(loop: asyncio.Runner, workers: Workers) -> None:
    async def failing() -> AsyncIterator[list[bytes]]:
        yield encoded(ONE)
        raise CommandError(43, "cursor gone")

    with pytest.raises(CommandError, match="cursor gone"):
        loop.run(outcome(lambda sink: workers.map_reduce(job("emit(1, 1)"), failing(), sink)))


def test_closing_the_pool_ends_running_operations_and_processes(loop: asyncio.Runner, tmp_path: Path) -> None:
    async def scenario() -> tuple[int, list[int]]:
        workers = Workers(1, spill=tmp_path)
        await workers.start()
        pids = children()
        running = asyncio.create_task(
            outcome(lambda sink: workers.map_reduce(job("while (true);"), stream(encoded(ONE)), sink))
        )
        await asyncio.sleep(0)
        closing: Awaitable[None] = workers.close()
        await closing
        with pytest.raises(CommandError) as error:
            await running
        return error.value.code, sorted(pids & children())

    before = children()
    number, left = loop.run(scenario())
    assert number == 11600
    assert [pid for pid in left if pid not in before] == []


def test_a_worker_that_grew_large_is_replaced(loop: asyncio.Runner, tmp_path: Path) -> None:
    async def scenario(source: str) -> bool:
        before = children()
        workers = Workers(1, spill=tmp_path)
        await workers.start()
        worker = children() - before
        await outcome(lambda sink: workers.map_reduce(job(source), stream(encoded(ONE)), sink))
        kept = worker <= children()
        await workers.close()
        return kept

    assert loop.run(scenario("emit(1, 1)"))
    assert not loop.run(scenario("emit(1, new Uint8Array(4e8).fill(1).length)"))


@pytest.mark.parametrize("leased", [False, True])
def test_an_idle_worker_that_has_died_is_not_given_out(loop: asyncio.Runner, tmp_path: Path, leased: bool) -> None:
    async def scenario() -> None:
        before = children()
        workers = Workers(1, spill=tmp_path)
        await workers.start()
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: children() == before, 10)
        if leased:
            async with workers.lease(Limits()):
                pass
        else:
            result = await outcome(lambda sink: workers.map_reduce(job("emit(1, 1)"), stream(encoded(ONE)), sink))
            assert decoded(result.results) == [(1.0, 1.0)]
        await workers.close()

    loop.run(scenario())


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}
