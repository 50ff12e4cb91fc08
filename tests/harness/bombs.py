"""Small requests that ask for much: what a node must answer, and never at the price of its memory.

A bomb is one request on the collections of `COLLECTIONS`. Its codes are what a real server answers (0: it carries the
request out), and where that depends on how values lie in memory, or where a real server dies, the refusal that is as
good. `throw` sends one and watches the processes that work on it, and pings beside it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import bson
import pymongo
from pymongo.errors import OperationFailure

from tests.harness.pinger import Pinger

Command = dict[str, Any]
Client = pymongo.MongoClient[dict[str, Any]]

GROWTH_BYTES = 400 * 1024 * 1024
"""What a process may grow by, over what it has when idle."""
DATABASE = "bombs"
_WATCHED_SECONDS = 0.01
_AT_REST_BYTES = 64 * 1024 * 1024
_SETTLING_SECONDS = 5.0
_FEW = {"$multiply": ["$a", 0]}
"""Nothing, but only known when there is a document."""
_HUGE = {"$range": [_FEW, 100_000_000]}
_MILLION = {"$range": [_FEW, 1_000_000]}

COLLECTIONS: dict[str, Callable[[], list[Command]]] = {
    "one": lambda: [{"_id": 1, "a": 1, "s": "x"}],
    "many": lambda: [{"_id": number, "a": number, "g": 1, "s": "x" * 100} for number in range(20_000)],
    "wide": lambda: [{"_id": number, "g": 1, "s": "x" * 1_000_000} for number in range(40)],
    "long": lambda: [{"_id": 1, "s": "a," * 5_000_000}],
    "back": lambda: [{"_id": 1, "s": "a" * 5_000 + "b"}],
    "members": lambda: [{"_id": 1, "a": list(range(150_000)), "d": {str(number): 1 for number in range(30_000)}}],
}
"""The documents of each collection."""

INDEXES = {"texts": ("t", "text"), "places": ("g", "2dsphere"), "fields": ("$**", 1), "arrays": ("a", 1)}
"""Collections without documents, and the key of the index of each."""


@dataclass(frozen=True, slots=True)
class Bomb:
    """`make` gives the request, which is answered with one of `codes`."""

    name: str
    make: Callable[[], Command]
    codes: frozenset[int]


class Outcome(NamedTuple):
    """The code of the answer, the bytes by which a process grew at most, the seconds of the answer and of each ping."""

    code: int
    growth: int
    seconds: float
    pings: tuple[float, ...]


def _bomb(name: str, make: Callable[[], Command], *codes: int) -> Bomb:
    return Bomb(name, make, frozenset(codes))


def _pipeline(collection: str, *stages: Command, **options: Any) -> Callable[[], Command]:
    return lambda: {"aggregate": collection, "pipeline": list(stages), "cursor": {}, **options}


def _computed(expression: Any, collection: str = "one") -> Callable[[], Command]:
    return _pipeline(collection, {"$project": {"r": expression}})


def _doubled(name: str, start: Any) -> Command:
    both = {name: ["$$value", "$$value"]}
    return {"$reduce": {"input": {"$range": ["$a", 40]}, "initialValue": start, "in": both}}


def _grouped(accumulator: Any) -> Callable[[], Command]:
    return _pipeline("many", {"$group": {"_id": None, "r": accumulator}})


_GATHERED: Command = {"groupBy": "$a", "buckets": 5, "output": {"r": {"$push": "$r"}}}


def _grown(stage: Command) -> Callable[[], Command]:
    return _pipeline("many", {"$set": {"r": {"$range": [0, 2_000]}}}, stage, {"$count": "n"}, allowDiskUse=False)


def _windowed(window: Command) -> Callable[[], Command]:
    stage = {"sortBy": {"a": 1}, "output": {"p": {"$push": "$r", **window}}}
    wide: Command = {"$set": {"r": {"$range": [0, 2_000]}}}
    return _pipeline("many", wide, {"$setWindowFields": stage}, {"$count": "n"})


def _update(make: Callable[[], Any]) -> Callable[[], Command]:
    return lambda: {"update": "one", "updates": [{"q": {"_id": 1}, "u": make()}]}


def _map_in_map(width: int) -> Command:
    inner = {"$map": {"input": {"$range": [_FEW, width]}, "in": 1}}
    return {"$map": {"input": {"$range": [_FEW, width]}, "in": inner}}


def _in_many() -> Command:
    return {"find": "many", "filter": {"a": {"$in": list(range(10**6, 10**6 + 500_000))}}}


def _inserted(collection: str, make: Callable[[], Command]) -> Callable[[], Command]:
    return lambda: {"insert": collection, "documents": [make()]}


def _ring(vertices: int) -> Command:
    turns = [2 * math.pi * place / vertices for place in range(vertices)]
    ring = [[10 * math.cos(turn), 10 * math.sin(turn)] for turn in turns]
    return {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}


def _either() -> Command:
    return {"$or": [{"a": number, "b": {"$gt": number}} for number in range(50_000)]}


def _patterns() -> Command:
    return {"find": "one", "filter": {"s": {"$in": [bson.Regex(f"a{number}b") for number in range(100_000)]}}}


def _changed(collection: str, query: Command, change: Any) -> Callable[[], Command]:
    return lambda: {"update": collection, "updates": [{"q": query, "u": change}]}


def _indexed(key: Command) -> Callable[[], Command]:
    return lambda: {"createIndexes": "members", "indexes": [{"key": key, "name": "_".join(key)}]}


def _names(count: int) -> list[str]:
    return [f"f{number}" for number in range(count)]


def _fields(count: int) -> Command:
    return dict.fromkeys(_names(count), 1)


def _words(count: int) -> str:
    return " ".join(f"{chr(97 + number % 26)}{number:x}ing" for number in range(count))


_MATCH = {"$regexMatch": {"input": "$s", "regex": "^(a+)+$"}}
_LOOKUP = {"from": "wide", "pipeline": list[Any](), "as": "r"}
_GRAPH = {"from": "wide", "startWith": "$a", "connectFromField": "g", "connectToField": "g", "as": "r"}
_ARRAYS = {"$range": [0, 10_000]}
_OTHERS = {"$range": [1_000_000, {"$add": ["$a", 1_999_999]}]}
_SIXTY = ({"$set": {"r": {"$range": [0, 60]}}}, {"$unwind": "$r"})
_PUSHED = {"_id": None, "r": {"$push": "$s"}}
_SUM = {"$reduce": {"input": _MILLION, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}
_TOP = {"n": 20_000, "sortBy": {"a": 1}, "output": _ARRAYS}
_REPLACED = {"input": "$s", "find": "a", "replacement": "b" * 1_000}
_FACETS: Command = {f"f{number}": [{"$match": {}}] for number in range(100)}
_FAR = {"field": "a", "range": {"step": 1, "bounds": [0, 100_000_000]}}

BOMBS = (
    _bomb("$set of 200,000 fields", _update(lambda: {"$set": {f"f{number}": 1 for number in range(200_000)}}), 0),
    _bomb("a range of 1e8", _computed({"$size": _HUGE}), 146),
    _bomb("a range of 1e8 among constants", _computed({"$size": {"$range": [0, 100_000_000]}}), 146),
    _bomb("a range in $expr", lambda: {"find": "one", "filter": {"$expr": {"$gt": [{"$size": _HUGE}, 1]}}}, 146),
    _bomb("a range in an update", _update(lambda: [{"$set": {"r": _HUGE}}]), 146),
    _bomb("a string doubled", _computed(_doubled("$concat", "0123456789")), 16493),
    _bomb("an array doubled", _computed({"$size": _doubled("$concatArrays", ["x" * 1_000])}), 146),
    _bomb("$map within $map", lambda: _computed({"$size": _map_in_map(50_000)})() | {"maxTimeMS": 1_000}, 146, 50),
    _bomb("a sum of a million", _computed(_SUM), 0),
    _bomb("$split of 10 MB", _computed({"$size": {"$split": ["$s", ","]}}, "long"), 0),
    _bomb("$replaceAll", _computed({"$replaceAll": _REPLACED}, "long"), 13548),
    _bomb("$set beyond 16 MB", _pipeline("long", {"$set": {"t": "$s"}}), 10334),
    _bomb("$replaceRoot beyond 16 MB", _pipeline("long", {"$replaceRoot": {"newRoot": {"a": "$s", "b": "$s"}}}), 10334),
    _bomb("$firstN of arrays", _grouped({"$firstN": {"n": 20_000, "input": _ARRAYS}}), 146),
    _bomb("$topN of arrays", _grouped({"$topN": _TOP}), 146),
    _bomb("60 strings of 10 MB in an array", _computed({"$size": [["$s"] * 60]}, "long"), 146),
    _bomb("60 strings of 10 MB in a group", _pipeline("long", *_SIXTY, {"$group": _PUSHED}), 146),
    _bomb("$push of arrays", _grouped({"$push": {"$range": [0, 2_000]}}), 146),
    _bomb("$addToSet of arrays", _grouped({"$addToSet": {"a": "$a", "r": {"$range": [0, 1_000]}}}), 146),
    _bomb("$push of a window", _windowed({}), 146),
    _bomb("$push of a window that slides", _windowed({"window": {"documents": [-15_000, 15_000]}}), 5414201),
    _bomb("$zip of millions", _computed({"$size": {"$zip": {"inputs": [_MILLION, _MILLION]}}}), 0, 146),
    _bomb("$setUnion of millions", _computed({"$size": {"$setUnion": [_MILLION, _OTHERS]}}), 0, 146),
    _bomb("$lookup beyond 16 MB", _pipeline("one", {"$lookup": _LOOKUP}), 10334, 4568),
    _bomb("$graphLookup beyond 16 MB", _pipeline("one", {"$graphLookup": _GRAPH}), 10334),
    _bomb("$facet of many", _pipeline("many", {"$facet": _FACETS}), 4031700),
    _bomb("$densify", _pipeline("one", {"$densify": _FAR}, {"$count": "n"}), 5897900),
    _bomb("$sort of grown documents", _grown({"$sort": {"s": 1}}), 292),
    _bomb("$bucketAuto of grown documents", _grown({"$bucketAuto": {"groupBy": "$a", "buckets": 5}}), 0),
    _bomb("$bucketAuto that gathers what has grown", _grown({"$bucketAuto": _GATHERED}), 292),
    _bomb("a regex that backtracks", lambda: {"find": "back", "filter": {"s": {"$regex": "^(a+)+$"}}}, 0),
    _bomb("an expression that backtracks", _computed(_MATCH, "back"), 51156),
    _bomb(
        "500,000 values of $in",
        _in_many,
        0,
    ),
    _bomb("a text of 100,000 words", _inserted("texts", lambda: {"t": _words(100_000)}), 0),
    _bomb("a polygon of 50,000 vertices", _inserted("places", lambda: {"g": _ring(50_000)}), 0),
    _bomb("200,000 fields in a wildcard index", _inserted("fields", lambda: {f"f{n}": n for n in range(200_000)}), 0),
    _bomb("200,000 keys of one document", _inserted("arrays", lambda: {"a": list(range(200_000))}), 0),
    _bomb("a polygon of 100,000 vertices", _inserted("places", lambda: {"g": _ring(100_000)}), 0),
    _bomb("100,000 patterns of $in", _patterns, 0),
    _bomb("a union of 50,000", lambda: {"find": "many", "filter": _either(), "maxTimeMS": 1_000}, 0, 50),
    _bomb("a count of a union", lambda: {"count": "one", "query": _either()}, 0),
    _bomb("an update of a union", lambda: _changed("one", _either(), {"$set": {"x": 1}})(), 0),
    _bomb("a delete of a union", lambda: {"delete": "one", "deletes": [{"q": _either(), "limit": 1}]}, 0),
    _bomb("findAndModify of a union", lambda: {"findAndModify": "one", "query": _either(), "remove": True}, 0),
    _bomb("$push to 200,000 with an index", _changed("arrays", {"a": 199_999}, {"$push": {"a": -1}}), 0),
    _bomb("$inc of 200,000 fields' neighbour", _changed("fields", {}, {"$inc": {"n.m": 1}, "$max": {"o": 1}}), 0),
    _bomb("a projection of 40,000 fields", lambda: {"find": "one", "projection": _fields(40_000)}, 0),
    _bomb("a let of 300,000 fields", lambda: {"find": "one", "let": _fields(300_000)}, 0),
    _bomb("300,000 operands", lambda: {"find": "one", "filter": {"$expr": {"$and": ["$a"] * 300_000}}}, 0, 146),
    _bomb("200,000 roles", lambda: {"rolesInfo": _names(200_000)}, 0),
    _bomb("1,000 stages of $match", lambda: _pipeline("one", *[{"$match": {"a": 1}}] * 1_000)(), 0),
    _bomb("1,000 stages of $group", _pipeline("one", *[{"$group": {"_id": "$_id"}}] * 1_000), 0),
    _bomb("a sort by 150,000 members", lambda: {"find": "members", "sort": {"a": 1}, "projection": {"_id": 1}}, 0),
    _bomb("150,000 distinct values", lambda: {"distinct": "members", "key": "a"}, 0),
    _bomb("$addToSet to 150,000 members", _changed("members", {}, {"$addToSet": {"a": -1}}), 0),
    _bomb("an index over 150,000 members", _indexed({"a": 1}), 0),
    _bomb("a wildcard index over 30,000 fields", _indexed({"d.$**": 1}), 0),
    _bomb("20,000 fields of $merge", _pipeline("one", {"$merge": {"into": "x", "on": _names(20_000)}}), 51183, 51190),
    _bomb("a path of 5,000 parts", _update(lambda: {"$set": {".".join("b" * 5_000): 1}}), 15),
)


def fill(client: Client) -> None:
    """Insert what the bombs are about."""
    for name, documents in COLLECTIONS.items():
        client[DATABASE][name].insert_many(documents())
    for name, key in INDEXES.items():
        client[DATABASE][name].create_index([key])


def resident(pid: int) -> int:
    """The bytes of memory that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def throw(client: Client, idle: Mapping[int, int], bomb: Bomb, pingers: Sequence[Pinger] = ()) -> Outcome:
    """Send a bomb. `idle`: the processes that work on it, and the bytes that each had before any; `pingers` ping them
    meanwhile.
    """
    done = threading.Event()
    growth = 0

    def weigh() -> None:
        nonlocal growth
        while not done.wait(_WATCHED_SECONDS):
            growth = max(growth, _growth(idle))

    _settled(idle)
    command = bomb.make()
    watcher = threading.Thread(target=weigh)
    watcher.start()
    with ExitStack() as pinging:
        taken = [pinging.enter_context(each.during()) for each in pingers]
        began = time.monotonic()
        try:
            code = _code(client, command)
        finally:
            seconds = time.monotonic() - began
            done.set()
            watcher.join()
    return Outcome(code, growth, seconds, tuple(chain.from_iterable(taken)))


def _growth(idle: Mapping[int, int]) -> int:
    """The bytes that a process has more than when it was idle, at most."""
    return max(0, *(resident(pid) - before for pid, before in idle.items()))


def _settled(idle: Mapping[int, int]) -> None:
    """What the request before has used is given back, soon or never."""
    patience = time.monotonic() + _SETTLING_SECONDS
    while _growth(idle) > _AT_REST_BYTES and time.monotonic() < patience:
        threading.Event().wait(_WATCHED_SECONDS)


def _code(client: Client, command: Command) -> int:
    try:
        reply = client[DATABASE].command(command)
    except OperationFailure as error:
        return error.code or 0
    errors = reply.get("writeErrors", [])
    return int(errors[0]["code"]) if errors else 0
