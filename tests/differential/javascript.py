"""Cases of users' JavaScript on servers: commands over `TYPED` and `SMALL`, by name.

A case is a list of commands, carried out in order; the replies of all of them count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bson.code import Code

from tests.differential import javascript_texts as texts
from tests.differential import where_texts
from tests.differential.javascript_texts import FIRST, SUM

Command = dict[str, Any]


def map_reduce(source: Any, reduce: Any = SUM, collection: str = "small", **rest: Any) -> Command:
    return {"mapReduce": collection, "map": source, "reduce": reduce, "out": {"inline": 1}, **rest}


def emitting(key: str, value: str) -> str:
    return f"function () {{ emit({key}, {value}) }}"


def project(body: Any, args: Any, collection: str = "small", **rest: Any) -> Command:
    function = {"body": body, "args": args, "lang": "js", **rest}
    pipeline = [{"$sort": {"_id": 1}}, {"$limit": 3}, {"$project": {"r": {"$function": function}}}]
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}}


def accumulate(collection: str = "small", key: Any = None, **changes: Any) -> Command:
    given = {
        "init": "function () { return {n: 0, s: ''} }",
        "accumulate": "function (state, n) { return {n: state.n + n, s: state.s + typeof n} }",
        "accumulateArgs": ["$n"],
        "merge": "function (a, b) { return {n: a.n + b.n, s: a.s + b.s} }",
        "lang": "js",
        **changes,
    }
    given = {name: value for name, value in given.items() if value is not None}
    pipeline = [{"$sort": {"_id": 1}}, {"$group": {"_id": key, "r": {"$accumulator": given}}}, {"$sort": {"_id": 1}}]
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}}


def find(condition: Any, collection: str = "small") -> Command:
    return {"find": collection, "filter": condition, "sort": {"_id": 1}}


def _written(out: Any) -> list[Command]:
    target = "out2" if out == {"replace": "out2"} else "out"
    return [
        {"delete": "out", "deletes": [{"q": {}, "limit": 0}]},
        {"insert": "out", "documents": [{"_id": "a", "value": 100, "x": 1}, {"_id": "old", "value": 1}]},
        {**map_reduce(emitting("'' + this.s", "1")), "out": out},
        find({}, target),
    ]


ACCUMULATORS: dict[str, Command] = {
    "plain": accumulate(),
    "this": accumulate(
        init="function () { this.calls = 7; return {n: 0} }",
        accumulate="function (state, s) { this.calls = (this.calls || 0) + 1; return {n: this.calls} }",
        finalize="function (state) { return [state.n, this.calls] }",
    ),
    "by field": accumulate(key="$s"),
    "by expression": accumulate(key={"$type": "$n"}),
    "finalize": accumulate(finalize="function (state) { return state.n }"),
    "finalize undefined": accumulate(finalize="function (state) { }"),
    "init arguments": accumulate(init="function (k) { return {n: k, s: ''} }", initArgs=[10]),
    "init of the key": accumulate(
        key={"k": "$s"}, init="function (k) { return {n: 0, s: tojson(k)} }", initArgs=["$k"]
    ),
    "init throws": accumulate(init="function () { throw 1 }"),
    "accumulate throws": accumulate(accumulate="function () { throw new Error('x') }"),
    "finalize throws": accumulate(finalize="function () { throw 'x' }"),
    "no merge": accumulate(merge=None),
    "no init": accumulate(init=None),
    "wrong language": accumulate(lang="py"),
    "unknown": accumulate(more=1),
    "argument number": accumulate(accumulateArgs=1),
    "strings": accumulate(accumulateArgs=["$s"]),
    "missing": accumulate(
        accumulateArgs=["$missing"], accumulate="function (s, m) { return {n: 0, s: s.s + typeof m + m} }"
    ),
    "number state": accumulate(
        init="function () { return 0 }",
        accumulate="function (s, n) { return s + n }",
        merge="function (a, b) { return a + b }",
    ),
    "null state": accumulate(
        init="function () { return null }",
        accumulate="function (s, n) { return s }",
        merge="function (a, b) { return a }",
    ),
    "undefined state": accumulate(
        init="function () { }", accumulate="function (s, n) { return s }", merge="function (a, b) { return a }"
    ),
}

STORED_DOCUMENTS = [
    {"_id": "twice", "value": Code("function (x) { return 2 * x }")},
    {"_id": "five", "value": 5},
    {"_id": "shape", "value": {"a": [1]}},
    {"_id": "text", "value": "function () { return 1 }"},
]
STORED = [
    {"insert": "system.js", "documents": STORED_DOCUMENTS},
    find({"$where": "twice(this.n) == 5"}),
    find({"$where": "five == this.n"}),
    find({"$where": "typeof text == 'string'"}),
    map_reduce(emitting("this.s", "twice(this.n)")),
    map_reduce(emitting("1", "1"), "function (k, v) { return shape.a[0] + v.length }"),
    map_reduce(emitting("1", "1"), SUM, finalize="function (k, v) { return twice(v) }"),
    map_reduce(emitting("1", "twice.toString().length")),
    map_reduce(emitting("1", "five"), SUM, scope={"five": 6}),
    project("function (n) { return twice(n) }", ["$n"]),
    project("function (n) { return typeof five }", ["$n"]),
    {"insert": "system.js", "documents": [{"_id": "scoped", "value": Code("function () { return q }", {"q": 1})}]},
    find({"$where": "true"}),
    map_reduce(emitting("1", "1")),
    project("function (n) { return n }", ["$n"]),
    {"delete": "system.js", "deletes": [{"q": {}, "limit": 0}]},
]


def ordered(source: str) -> list[Command]:
    """What a script makes of a document with numbers as names, and what becomes of it in map-reduce."""
    function = {"body": f"function (d) {{ {source} }}", "args": ["$$ROOT"], "lang": "js"}
    pipeline = [{"$documents": [texts.NUMBERED]}, {"$project": {"_id": 0, "r": {"$function": function}}}]
    return [
        {"aggregate": 1, "pipeline": pipeline, "cursor": {}},
        {"update": "numbered", "updates": [{"q": {"_id": 1}, "u": texts.NUMBERED, "upsert": True}]},
        map_reduce(
            f"function () {{ var f = function (d) {{ {source} }}; emit(1, f(this)) }}", FIRST, collection="numbered"
        ),
    ]


def _by_name(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}


FAMILIES: tuple[tuple[str, Mapping[str, Any], Callable[[Any], list[Command]]], ...] = (
    ("field out", _by_name(texts.NAMES), lambda name: [map_reduce(emitting("1", f"this.{name}"), FIRST, "typed")]),
    (
        "field as text",
        _by_name(texts.NAMES),
        lambda name: [
            map_reduce(emitting("1", f"[typeof this.{name}, tojson(this.{name}), '' + this.{name}]"), FIRST, "typed")
        ],
    ),
    (
        "argument",
        _by_name(texts.NAMES),
        lambda name: [project("function (v) { return {t: typeof v, v: v} }", [f"${name}"], "typed")],
    ),
    ("value out", texts.MADE, lambda value: [map_reduce(emitting("1", f"{{v: {value}}}"), FIRST, "typed")]),
    ("function gives", texts.MADE, lambda value: [project(f"function () {{ return {value} }}", [], "typed")]),
    ("key", texts.KEYS, lambda key: [map_reduce(emitting(key, "1"))]),
    (
        "reduce",
        texts.REDUCES,
        lambda source: [map_reduce("function () { emit('k', this.n); emit('k', 2) }", source)],
    ),
    ("finalize", texts.FINALIZES, lambda source: [map_reduce(emitting("this.s", "1"), SUM, finalize=source)]),
    ("map throws", texts.ERRORS, lambda source: [map_reduce(f"function () {{ {source} }}")]),
    ("where throws", texts.ERRORS, lambda source: [find({"$where": f"function () {{ {source}; return true }}"})]),
    ("function throws", texts.ERRORS, lambda source: [project(f"function () {{ {source} }}", [])]),
    ("source", texts.SOURCES, lambda source: [map_reduce(source)]),
    ("body", texts.SOURCES, lambda source: [project(source, ["$n"])]),
    (
        "scope",
        texts.SCOPES,
        lambda scope: [map_reduce(emitting("1", "{t: typeof given, v: given}"), FIRST, "typed", scope=scope)],
    ),
    ("out", texts.OUTS, lambda out: _written(out)),
    ("option", texts.OPTIONS, lambda options: [map_reduce(emitting("this.s", "1"), SUM, **options)]),
    ("where", texts.WHERES, lambda condition: [find({"$where": condition})]),
    ("where text", where_texts.texts(400), lambda text: [find({"$where": text})]),
    ("language", texts.LANGUAGE, lambda source: [project(f"function () {{ {source} }}", [], "typed")]),
    ("order", _by_name(texts.ORDERS), ordered),
    ("accumulator", ACCUMULATORS, lambda command: [command]),
    ("stored", {str(position): command for position, command in enumerate(STORED)}, lambda command: [command]),
)
"""(family, what the cases of it are made of by name, the commands of a case)."""


def cases() -> dict[str, list[Command]]:
    """Every case by name."""
    return {
        f"{family}: {name}": commands(source)
        for family, sources, commands in FAMILIES
        for name, source in sources.items()
    }
