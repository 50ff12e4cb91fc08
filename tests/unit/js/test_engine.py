"""The private names of py_mini_racer do what `docstore.js.engine` needs of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from docstore.js.engine import Failure, Handle, Isolate, ScriptError, TimeUp


@pytest.fixture
def isolate() -> Iterator[Isolate]:
    isolate = Isolate()
    yield isolate
    isolate.close()


@pytest.mark.parametrize(
    ("source", "value"),
    [("1 + 1", 2), ("0.5", 0.5), ("'a\\u00e9'", "aé"), ("true", True), ("null", None), ("undefined", None), ("''", "")],
)
def test_plain_values_come_back_as_python_values(isolate: Isolate, source: str, value: object) -> None:
    assert isolate.evaluate(source) == value


def test_a_lone_surrogate_does_not_block(isolate: Isolate) -> None:
    assert isinstance(isolate.evaluate("'\\ud800'"), str)


def test_a_value_without_python_form_is_a_handle(isolate: Isolate) -> None:
    assert isinstance(isolate.evaluate("10n"), Handle)
    assert isinstance(isolate.evaluate("({})"), Handle)


def test_buffers_are_shared_memory(isolate: Isolate) -> None:
    view = isolate.evaluate("var kept = new Uint8Array(4); kept.buffer")
    assert isinstance(view, memoryview)
    view[2] = 7
    assert isolate.evaluate("kept[2]") == 7


def test_throwing_and_bad_syntax_are_told_apart(isolate: Isolate) -> None:
    with pytest.raises(ScriptError) as thrown:
        isolate.evaluate("throw new Error('no')")
    with pytest.raises(ScriptError) as syntax:
        isolate.evaluate("function (")
    assert (thrown.value.failure, syntax.value.failure) == (Failure.THROWN, Failure.SYNTAX)


def test_unfinished_source_says_so(isolate: Isolate) -> None:
    """The shell asks for more lines when it sees this text."""
    with pytest.raises(ScriptError, match="Unexpected end of input"):
        isolate.evaluate("function f() {")


def test_an_endless_loop_is_stopped(isolate: Isolate) -> None:
    with pytest.raises(TimeUp):
        isolate.evaluate("while (true);", timeout=0.05)


def test_the_heap_limit_ends_the_script_and_not_the_process() -> None:
    isolate = Isolate(heap_limit=64 << 20)
    with pytest.raises(ScriptError):
        isolate.evaluate("var all = []; while (true) all.push({ n: all.length })")
    assert isolate.exhausted()
    isolate.close()


def test_host_functions_run_inside_the_call(isolate: Isolate) -> None:
    numbers = isolate.evaluate("var shared = new Float64Array(2); shared.buffer")
    assert isinstance(numbers, memoryview)
    pair = numbers.cast("d")

    def double() -> None:
        pair[1] = pair[0] * 2

    isolate.call(isolate.evaluate("(host => { globalThis.host = host })"), isolate.host_function(double))
    assert isolate.evaluate("[3, 1, 2].map(n => { shared[0] = n; host(); return shared[1] }).join()") == "6,2,4"


def test_values_of_any_type_can_stay_in_javascript(isolate: Isolate) -> None:
    describe = isolate.evaluate("(value => typeof value + ' ' + value)")
    expected = {
        "1.5": "number 1.5",
        "'x'": "string x",
        "({})": "object [object Object]",
        "undefined": "undefined undefined",
    }
    for source, text in expected.items():
        isolate.start(source)
        handle = isolate.finished_handle()
        assert isolate.call(describe, handle) == text
        isolate.free(handle)


def test_variables_survive_a_stopped_script(isolate: Isolate) -> None:
    isolate.evaluate("let kept = 1")
    with pytest.raises(TimeUp):
        isolate.evaluate("while (true);", timeout=0.05)
    with pytest.raises(ScriptError) as stopped:
        isolate.finished(5)
    assert stopped.value.failure is Failure.STOPPED
    assert isolate.evaluate("kept") == 1


def test_isolates_do_not_share_globals() -> None:
    first, second = Isolate(), Isolate()
    first.evaluate("var mine = 1")
    assert second.evaluate("typeof mine") == "undefined"
    first.close()
    second.close()
