"""Random stages and expressions, where users' mistakes and corner cases meet. All take a generator."""

from __future__ import annotations

from random import Random
from typing import Any

from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from tests.differential.randomly import COLLATIONS, WORDS, Case

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "+05:30",
    "-0330",
    "GMT",
    "Bad/Zone",
]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"]
WEEKDAYS = ["monday", "tue", "Friday", "sunday", "noday"]


def plain_number(rng: Random) -> Any:
    """A number that takes no digits away from others when it is added and taken away again."""
    small = rng.randint(-3, 6)
    return rng.choice([small, float(small), Int64(small), Decimal128(str(small)), small + 0.5])


def rows(rng: Random, count: int) -> list[Case]:
    """Documents of a table: a group, two numbers or what stands in their place, a moment, a word, an array."""
    found: list[Case] = []
    for position in range(count):
        row: Case = {"_id": position, "g": rng.choice("xyz"), "n": position * rng.choice([1, 2])}
        row["when"] = DatetimeMS(1_580_000_000_000 + position * 3_600_000 * rng.randint(1, 30))
        for name in ("v", "w"):
            if rng.random() < 0.85:
                row[name] = plain_number(rng) if rng.random() < 0.9 else rng.choice([None, "a", [1, 2], True])
        row["s"] = rng.choice(WORDS)
        row["t"] = [rng.choice(WORDS) for _ in range(rng.randint(0, 3))]
        found.append(row)
    return found


_BOUNDS = ["unbounded", "current", -3, -1, 0, 1, 2]


def window(rng: Random, sort: Case) -> Case:
    """The bounds of a window: of documents, of values or of time."""
    low, high = rng.choice(_BOUNDS), rng.choice(_BOUNDS)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        low, high = high, low
    if low == "current" and isinstance(high, int) and high < 0:
        high = 1
    if high == "current" and isinstance(low, int) and low > 0:
        low = -1
    if list(sort.items()) == [("when", 1)] and rng.random() < 0.6:
        return {"range": [low, high], "unit": rng.choice(["hour", "day", "week"])}
    return {rng.choice(["range", "documents"]) if list(sort.items()) == [("n", 1)] else "documents": [low, high]}


_ACCUMULATORS = ["$sum", "$avg", "$min", "$max", "$push", "$first", "$last", "$stdDevPop", "$stdDevSamp", "$count"]
_CHOOSING = ["$firstN", "$lastN", "$minN", "$maxN", "$top", "$bottom", "$topN", "$bottomN"]
_ORDERED = ["$rank", "$denseRank", "$documentNumber", "$shift", "$expMovingAvg", "$derivative", "$integral", "$locf"]


def accumulator(rng: Random) -> Case:
    """The value of one field of `$group`, or of a window."""
    name = rng.choice(_ACCUMULATORS + _CHOOSING)
    field = rng.choice(["$v", "$w", "$s", "$g"])
    match name:
        case "$count":
            return {name: {}}
        case "$firstN" | "$lastN" | "$minN" | "$maxN":
            return {name: {"input": field, "n": rng.randint(1, 3)}}
        case "$top" | "$bottom":
            return {name: {"output": field, "sortBy": {"v": 1, "_id": 1}}}
        case "$topN" | "$bottomN":
            return {name: {"output": [field, "$_id"], "sortBy": {"w": -1, "_id": 1}, "n": rng.randint(1, 3)}}
        case _:
            return {name: field}


def windows(rng: Random) -> Case:
    """A `$setWindowFields`; without deviations, which show how rounding errors add up in the reference."""
    sort: Case = rng.choice([{"_id": 1}, {"n": 1}, {"when": 1}, {"v": -1, "_id": 1}])
    if rng.random() < 0.6:
        output = accumulator(rng)
        output = {"$sum" if name.startswith("$stdDev") else name: of for name, of in output.items()}
        if rng.random() < 0.85:
            output["window"] = window(rng, sort)
    else:
        name = rng.choice([*_ORDERED, "$covariancePop", "$linearFill"])
        match name:
            case "$shift":
                output = {name: {"output": "$v", "by": rng.randint(-2, 2), "default": rng.choice([None, "none"])}}
            case "$expMovingAvg":
                output = {name: {"input": "$n", **rng.choice([{"N": 3}, {"alpha": 0.25}])}}
            case "$derivative" | "$integral":
                by_time = next(iter(sort)) == "when"
                output = {name: {"input": "$n", **({"unit": "hour"} if by_time else {})}}
                output["window"] = {"documents": [-rng.randint(1, 3), rng.randint(0, 2)]}
            case "$covariancePop":
                output = {name: ["$n", "$_id"]}
            case "$locf" | "$linearFill":
                output = {name: rng.choice(["$v", "$n"])}
            case _:
                output = {name: {}}
    stage: Case = {"sortBy": sort, "output": {"r": output}}
    if rng.random() < 0.6:
        stage["partitionBy"] = rng.choice(["$g", {"$toUpper": "$g"}, "$s"])
    return {"$setWindowFields": stage}


def merge(rng: Random) -> Case:
    """A `$merge` into `target`, which has a unique index on `k`."""
    stage: Case = {"into": "target"}
    if rng.random() < 0.6:
        stage["on"] = rng.choice(["_id", "k", ["k"], ["_id"], "s"])
    match rng.randint(0, 6):
        case 0:
            stage["whenMatched"] = [{"$set": {"seen": {"$add": ["$$new._id", 1]}, "old": "$a"}}]
        case 1:
            stage["let"] = {"x": "$a"}
            stage["whenMatched"] = [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"x": "$$x"}]}}]
        case 2:
            stage["whenMatched"] = [{"$unset": "a"}]
        case _:
            stage["whenMatched"] = rng.choice(["replace", "keepExisting", "merge", "fail", "bogus"])
    if rng.random() < 0.7:
        stage["whenNotMatched"] = rng.choice(["insert", "discard", "fail"])
    return {"$merge": stage}


def before_merge(rng: Random) -> list[Case]:
    return rng.choice(
        [
            [],
            [{"$set": {"k": "$_id"}}],
            [{"$set": {"k": {"$mod": ["$_id", 3]}}}],
            [{"$set": {"k": {"$add": ["$_id", 2]}}}, {"$unset": "_id"}],
            [{"$set": {"_id": {"$add": ["$_id", 4]}, "k": "$_id"}}],
            [{"$set": {"k": None}}],
            [{"$set": {"k": [1]}}],
        ]
    )


def moment(rng: Random) -> DatetimeMS:
    return DatetimeMS(rng.choice([rng.randint(0, 2 * 10**12), rng.randint(-(10**13), 10**13)]))


def date_expression(rng: Random) -> Any:
    zone: Case = {"timezone": rng.choice(ZONES)} if rng.random() < 0.7 else {}
    kind = rng.randint(0, 6)
    if kind == 0:
        ranges = {"month": 15, "day": 40, "hour": 30, "minute": 70, "second": 70, "millisecond": 2000}
        parts: Case = {name: rng.randint(-top, top) for name, top in ranges.items() if rng.random() < 0.5}
        return {"$dateFromParts": {"year": rng.choice([rng.randint(1, 3000), 0, 10000]), **parts, **zone}}
    if kind == 1:
        parts = {"isoWeek": rng.randint(-5, 60), "isoDayOfWeek": rng.randint(-2, 9)}
        return {"$dateFromParts": {"isoWeekYear": rng.randint(1900, 2100), **parts, **zone}}
    if kind == 2:
        return {"$dateToParts": {"date": moment(rng), "iso8601": rng.random() < 0.5, **zone}}
    if kind == 3:
        return {"$dateFromString": {"dateString": text_of_date(rng), "onError": "bad", **zone}}
    if kind == 4:
        weekday = {"startOfWeek": rng.choice(WEEKDAYS)} if rng.random() < 0.5 else {}
        unit = {"unit": rng.choice(UNITS), "binSize": rng.choice([1, 3, 10, 500])}
        return {"$dateTrunc": {"date": moment(rng), **unit, **weekday, **zone}}
    if kind == 5:
        unit = {"unit": rng.choice(UNITS), "amount": rng.choice([rng.randint(-99, 99), 2**31, Int64(2**60)])}
        return {rng.choice(["$dateAdd", "$dateSubtract"]): {"startDate": moment(rng), **unit, **zone}}
    layout = ["%Y", "%d %H %z", "%G-%V-%u", "%L"]
    return {"$dateToString": {"date": moment(rng), "format": "/".join(rng.sample(layout, 2)), **zone}}


def text_of_date(rng: Random) -> str:
    day = f"{rng.randint(1990, 2030)}-{rng.randint(1, 13):02}-{rng.randint(1, 31):02}"
    hour = f"{rng.randint(0, 25):02}:{rng.randint(0, 60):02}"
    return rng.choice(
        [
            day,
            f"{day}T{hour}:01Z",
            f"{day} {hour}:02.5",
            f"{day}T{hour}:03+02:00",
            f"{hour} {day}",
            f"{day} EST",
            day[:7],
        ]
    )


def decimal(rng: Random) -> Decimal128:
    digits = str(rng.randint(0, 10 ** rng.randint(1, 34) - 1))
    sign, exponent = rng.choice(["", "-"]), rng.choice([0, -1, -2, -5, 3, -20, 20, -33, -6100, 6000])
    return rng.choice([Decimal128(f"{sign}{digits}E{exponent}"), Decimal128(f"{sign}{digits[:3]}E{exponent}")])


def decimal_expression(rng: Random) -> Any:
    one = {"$literal": decimal(rng)}
    other = {"$literal": rng.choice([decimal(rng), rng.randint(-9, 9), rng.uniform(-5, 5), Int64(2**53 + 1)])}
    operands = rng.choice([[one, other], [other, one]])
    binary = ["$add", "$subtract", "$multiply", "$divide", "$mod", "$cmp", "$eq", "$lt", "$max", "$min", "$sum", "$avg"]
    unary = ["$abs", "$ceil", "$floor", "$sqrt", "$toString", "$toDouble", "$toInt", "$toLong", "$toBool", "$trunc"]
    unary += ["$round", "$toDate", "$ln", "$atan", "$asinh", "$sin", "$cos", "$tan", "$exp", "$type", "$bsonSize"]
    kind = rng.random()
    if kind < 0.5:
        return {rng.choice(binary): operands}
    if kind < 0.85:
        return {rng.choice(unary): [one]}
    return {rng.choice(["$round", "$trunc"]): [one, rng.randint(-20, 40)]}


def collated(rng: Random) -> Case:
    """An aggregation over `rows` under a collation, in an order that does not depend on how equal words come."""
    stages: list[Case] = rng.choice(
        [
            [{"$match": {"s": {rng.choice(["$gt", "$lte", "$in", "$ne"]): rng.choice(WORDS)}}}],
            [{"$match": {"t": rng.choice(WORDS)}}],
            [{"$match": {"$expr": {"$lt": ["$s", rng.choice(WORDS)]}}}],
            [{"$project": {"r": {"$in": [rng.choice(WORDS), "$t"]}}}],
            [{"$project": {"r": {"$indexOfArray": ["$t", rng.choice(WORDS)]}}}],
            [{"$project": {"r": {"$cmp": ["$s", rng.choice(WORDS)]}}}],
            [{"$project": {"r": {"$setIntersection": ["$t", [rng.choice(WORDS)]]}}}],
            [{"$project": {"r": {"$eq": [{"$max": "$t"}, "$s"]}}}],
            [{"$group": {"_id": "$s", "n": {"$sum": 1}}}, {"$group": {"_id": "$n", "m": {"$sum": 1}}}],
            [{"$group": {"_id": None, "r": {"$addToSet": "$s"}}}, {"$project": {"n": {"$size": "$r"}}}],
            [{"$bucket": {"groupBy": "$s", "boundaries": ["", "b", "d"], "default": "z"}}],
            [
                {"$lookup": {"from": "rows", "localField": "s", "foreignField": "t", "as": "r"}},
                {"$project": {"r": {"$size": "$r"}}},
            ],
            [{"$sort": {"s": 1, "_id": 1}}, {"$group": {"_id": 0, "r": {"$push": "$_id"}}}],
            [{"$project": {"r": {"$sortArray": {"input": [rng.choice(WORDS), rng.choice(WORDS)], "sortBy": 1}}}}],
        ]
    )
    pipeline = [*stages, {"$sort": {"_id": 1}}]
    return {
        "aggregate": "rows",
        "pipeline": pipeline,
        "cursor": {"batchSize": 1000},
        "collation": rng.choice(COLLATIONS),
    }


def group(rng: Random) -> list[Case]:
    """A `$group` by something, in the order of what it was grouped by."""
    key = rng.choice(["$g", None, {"g": "$g", "e": {"$gt": ["$v", 2]}}, "$v", ["$g"], {"$type": "$v"}])
    output = accumulator(rng)
    if not isinstance(key, str) and output.keys() & {"$min", "$max"}:
        # Which of equal numbers of different types is taken depends on the engine that the reference chooses.
        key = None
    ordered = [{"$sort": {"_id": 1}}]
    return [*ordered, {"$group": {"_id": key, "r": output}}, {"$sort": {"_id": 1}}]
