"""What texts of users' functions are: functions, expressions or statements; the parser says so, not their words."""

from __future__ import annotations

import json

import pytest

from tests.unit.js.conftest import Runtime


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("this.n > 2", True),
        ("this.s != 'return'", True),
        ("[this.n].some(function (t) { return t > 2 })", True),
        ("(x => x > 5)(this.n)", False),
        ("(function (x) { return x > 5 })(this.n)", False),
        ("function () { return this.n }", 3),
        ("function named(a) { return this.n };", 3),
        ("/* c */ function () { return this.n }", 3),
        ("return this.n", 3),
        ("var x = this.n; x + 1", 4),
        ("var x = this.n\nx + 1", 4),
        ("var x = this.n\n+ 1", None),
        ("var x = this.n // a; b\n// c; d\nx", 3),
        ("var u = 'http://x' // a\n\nthis.n", 3),
        ("if (this.n > 5) return 1; this.n", None),
        ("if (this.n) { 1 }", None),
        ("for (;;) break; this.n", 3),
        ("do { } while (false) this.n", 3),
        ("function f() { return 5 } f()", 5),
        ("function f() { return 5 }; return f()", 5),
        ("'a;b'; `;${this.n}}`", ";3}"),
        ("{ n: this.n }", None),
        ("class A {}", None),
        ("this.n // why", 3),
        ("'use strict'; (function () { return this === undefined })()", True),
        ("{ a: 1, b: 2 }", "EXC SyntaxError"),
        ("this.n) + (1", "EXC SyntaxError"),
        ("}) + (function () { return 1", "EXC SyntaxError"),
        ("", "EXC SyntaxError"),
        ("function () { return 1 }()", "EXC"),
    ],
)
def test_a_text_gives_the_value_of_its_last_expression(runtime: Runtime, text: str, value: object) -> None:
    outcome = runtime.value(f"compileCondition({json.dumps(text)}).call({{n: 3, s: 'a'}})")
    if isinstance(value, str) and value.startswith("EXC"):
        assert str(outcome).startswith(value)
    else:
        assert outcome == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x => x + 1", 6),
        ("(x, y = (2)) => x + y", 7),
        ("((x) => x)", 5),
        ("x => { return x };", 5),
        ("(function (x) { return x })", 5),
        ("(x => x > 5)(3)", False),
        ("(function () { return 1 })()", 1),
        ("arguments[0]", 5),
    ],
)
def test_literals_of_functions_are_functions_where_arguments_are_taken(
    runtime: Runtime, text: str, value: object
) -> None:
    assert runtime.value(f"compileFunction({json.dumps(text)})(5)") == value


def test_nothing_of_a_text_is_run_when_it_is_compiled(runtime: Runtime) -> None:
    for text in ("ran = 1", "(ran = 1, x => x)", "function () { ran = 1 }()", "x = ran = 1; x", "return ran = 1"):
        runtime.value(f"compileFunction({json.dumps(text)}), 1")
        assert runtime.value("typeof ran") == "undefined", text


def test_a_long_text_is_compiled_in_moderate_time(runtime: Runtime) -> None:
    statements = "".join(f"if (this.n > {number}) {{ var v{number} = [{number}]; }}\n" for number in range(2000))
    assert runtime.value(f"compileCondition({json.dumps(statements + 'v1[0]')}).call({{n: 3}})") == 1
    assert runtime.value(f"compileCondition({json.dumps(statements)}).call({{n: 3}})") is None
