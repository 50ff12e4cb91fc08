"""Cases of names whose argument is JavaScript: commands over `documents.SALES`, by name."""

from __future__ import annotations

from typing import Any

Command = dict[str, Any]

_SORTED = {"$sort": {"_id": 1}}

_ACCUMULATOR = {
    "init": "function () { return [0, 0]; }",
    "accumulate": "function (state, n, q) { return [state[0] + n, state[1] + (q || 0)]; }",
    "accumulateArgs": ["$n", "$q"],
    "merge": "function (a, b) { return [a[0] + b[0], a[1] + b[1]]; }",
    "finalize": "function (state) { return state[0] * 1000 + state[1]; }",
    "lang": "js",
}


def _find(condition: Any) -> Command:
    return {"find": "sales", "filter": condition, "sort": {"_id": 1}, "batchSize": 1000}


def _aggregate(*stages: Any) -> Command:
    return {"aggregate": "sales", "pipeline": list(stages), "cursor": {"batchSize": 1000}}


SCRIPTED: dict[str, list[Command]] = {
    "$where": [
        _find({"$where": "this.n > 2"}),
        _find({"$where": "function () { return obj.t.length == 2; }"}),
        _find({"_id": {"$lt": 9}, "$or": [{"$where": "this.p.city == null"}, {"n": 1}]}),
        _find({"$where": 5}),
        _find({"n": {"$where": "true"}}),
        _aggregate({"$match": {"$where": "true"}}),
    ],
    "$function": [
        _aggregate(
            {"$sort": {"_id": 1}}, {"$project": {"r": {"$function": {"body": body, "args": args, "lang": "js"}}}}
        )
        for body, args in (
            ("function (n) { return n + 1; }", ["$n"]),
            ("function (t, p) { return {joined: t.join('-'), size: p.score.length}; }", ["$t", "$p"]),
            ("function () { return [true, null, 'x']; }", []),
        )
    ],
    "$accumulator": [
        _aggregate({"$group": {"_id": key, "r": {"$accumulator": _ACCUMULATOR}}}, {"$sort": {"_id": 1}})
        for key in (None, "$item", {"n": "$n"})
    ],
}
