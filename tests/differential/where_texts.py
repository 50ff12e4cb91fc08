"""Texts of `$where`, made at random: statements, expressions and functions, with and without what ends them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

CONDITIONS = (
    "this.n > 2", "this.s == 'a'", "this.s != 'return'", "(x => x > 2)(this.n)",
    "(function (x) { return x > 2 })(this.n)",
    "[this.n].some(function (t) { var u = t; return u > 2 })", "/return/.test('return') && this.n > 2", "typeof this.s",
    "`return ${this.n}` == 'return 3'", "this.n > 2 ? true : false", "!function () { return this }()", "'s' in this",
    "(() => { return this.n > 1 })()", "this.n > 2 || (function () { return this.s == 'a' }).call(this)", "void 0",
    "new Function('return true')()", "eval('this.n > 2')", "{ a: 1 }", "({ a: 1 }).a > this.n", "[this.n > 2][0]",
    "+this.n > 2", "-this.n < -2", "(this.n > 2)", "this.n", "() => this.n > 2", "x => x",
    "(function () { return false })",
    "this.s, this.n > 2", "this.returned === undefined && this.n > 2", "this.$return = this.n > 2",
    "'a;b}c' && this.n > 2",
    "/[;}/]/.test(';') && this.n > 2", "`;${this.n}}` && this.n > 2", "async () => 1", "++this.n > 3", "this.n++ > 2",
)  # fmt: skip
STATEMENTS = (
    "var x = this.n", "let y = this.n", "const z = {}", "var f = function () { return 5; }", "if (this.n > 2) { }",
    "if (this.n > 4) return true", "for (var i = 0; i < 2; i++) { }", "for (;;) break", "while (false)", "this.n = 1",
    "do { } while (false)", "{ let q = 3 }", "class A { }", "'use strict'", "try { } finally { }",
    "switch (1) { case 1: }", "label: this.n = 2", "var x = [1]", "var u = 'http://x'",
    "if (this.n > 2) return true; else return false",
    "/* a; comment */ var w", "return this.n > 2", "return", "with (this) { }", "debugger",
)  # fmt: skip
OTHERS = (
    "function () { return this.n > 2 }()", "function () { return function () { return true } }()", "function",
    "function (",
    "this.n > 2)", "(this.n > 2", "}) + (function () { return true", "true}, function () {", "true) + (false",
    "{ a: 1 }.a",
    "{ a: 1, b: 2 }", "async function () { return false }", "function* () { yield 1 }", "", " ", "/* a */", "this.n >",
    "return true", "this.n > 2; return", "a\n(this.n > 2)", "let\n[a] = [1]; this.n > 2", "this.n > 2,", "...this.n",
    "function a() { return false } return true", "function a() { return true } a() && this.n > 2",
)  # fmt: skip
INNER_STATEMENTS = (*STATEMENTS, "function g() { return true }", "var v // a; comment\n// and; more\n")
"""Not at the end, where the real server cannot read them."""
ENDS = ("; ", ";\n", "\n", "\n\n", " ", ";;")
WHOLE = (
    "{condition}", "return {condition}", "function () {{ return {condition} }}",
    "function f(a) {{ return {condition} }};",
    "(function () {{ return {condition} }})", "/* c */ {condition}", "// c\n{condition}", "{condition};",
    "\n {condition} ;\n",
     "function g() {{ return true }}; return g() && {condition}",
    "{{ return {condition} }}", "{{ {condition} }}", "if ({condition}) return true", "if ({condition}) {{ true }}",
)  # fmt: skip


def texts(count: int) -> Mapping[str, str]:
    """Return texts by themselves: every condition in every form, and `count` random runs of statements."""
    rng = Random(5)
    made = [form.format(condition=condition) for form in WHOLE for condition in CONDITIONS]
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 4)):
            parts += [rng.choice(INNER_STATEMENTS), rng.choice(ENDS)]
        last = rng.choice(CONDITIONS) if rng.random() < 0.8 else rng.choice(STATEMENTS)
        made.append("".join([*parts, last]))
    return {text: text for text in (*OTHERS, *made)}
