"""Random stages and expressions, where users' mistakes and corner cases meet. All take the dice they throw."""

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


def plain_number(dice: Random) -> Any:
    """A number that takes no digits away from others when it is added and taken away again."""
    small = dice.randint(-3, 6)
    return dice.choice([small, float(small), Int64(small), Decimal128(str(small)), small + 0.5])


def rows(dice: Random, count: int) -> list[Case]:
    """Documents of a table: a group, two numbers or what stands in their place, a moment, a word, an array."""
    found: list[Case] = []
    for position in range(count):
        row: Case = {"_id": position, "g": dice.choice("xyz"), "n": position * dice.choice([1, 2])}
        row["when"] = DatetimeMS(1_580_000_000_000 + position * 3_600_000 * dice.randint(1, 30))
        for name in ("v", "w"):
            if dice.random() < 0.85:
                row[name] = plain_number(dice) if dice.random() < 0.9 else dice.choice([None, "a", [1, 2], True])
        row["s"] = dice.choice(WORDS)
        row["t"] = [dice.choice(WORDS) for _ in range(dice.randint(0, 3))]
        found.append(row)
    return found


_BOUNDS = ["unbounded", "current", -3, -1, 0, 1, 2]


def window(dice: Random, sort: Case) -> Case:
    """The bounds of a window: of documents, of values or of time."""
    low, high = dice.choice(_BOUNDS), dice.choice(_BOUNDS)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        low, high = high, low
    if low == "current" and isinstance(high, int) and high < 0:
        high = 1
    if high == "current" and isinstance(low, int) and low > 0:
        low = -1
    if list(sort.items()) == [("when", 1)] and dice.random() < 0.6:
        return {"range": [low, high], "unit": dice.choice(["hour", "day", "week"])}
    return {dice.choice(["range", "documents"]) if list(sort.items()) == [("n", 1)] else "documents": [low, high]}


_ACCUMULATORS = ["$sum", "$avg", "$min", "$max", "$push", "$first", "$last", "$stdDevPop", "$stdDevSamp", "$count"]
_CHOOSING = ["$firstN", "$lastN", "$minN", "$maxN", "$top", "$bottom", "$topN", "$bottomN"]
_ORDERED = ["$rank", "$denseRank", "$documentNumber", "$shift", "$expMovingAvg", "$derivative", "$integral", "$locf"]


def accumulator(dice: Random) -> Case:
    """The value of one field of `$group`, or of a window."""
    name = dice.choice(_ACCUMULATORS + _CHOOSING)
    field = dice.choice(["$v", "$w", "$s", "$g"])
    match name:
        case "$count":
            return {name: {}}
        case "$firstN" | "$lastN" | "$minN" | "$maxN":
            return {name: {"input": field, "n": dice.randint(1, 3)}}
        case "$top" | "$bottom":
            return {name: {"output": field, "sortBy": {"v": 1, "_id": 1}}}
        case "$topN" | "$bottomN":
            return {name: {"output": [field, "$_id"], "sortBy": {"w": -1, "_id": 1}, "n": dice.randint(1, 3)}}
        case _:
            return {name: field}


def windows(dice: Random) -> Case:
    """A `$setWindowFields`; without deviations, which show how rounding errors add up in the reference."""
    sort: Case = dice.choice([{"_id": 1}, {"n": 1}, {"when": 1}, {"v": -1, "_id": 1}])
    if dice.random() < 0.6:
        output = accumulator(dice)
        output = {"$sum" if name.startswith("$stdDev") else name: of for name, of in output.items()}
        if dice.random() < 0.85:
            output["window"] = window(dice, sort)
    else:
        name = dice.choice([*_ORDERED, "$covariancePop", "$linearFill"])
        match name:
            case "$shift":
                output = {name: {"output": "$v", "by": dice.randint(-2, 2), "default": dice.choice([None, "none"])}}
            case "$expMovingAvg":
                output = {name: {"input": "$n", **dice.choice([{"N": 3}, {"alpha": 0.25}])}}
            case "$derivative" | "$integral":
                by_time = next(iter(sort)) == "when"
                output = {name: {"input": "$n", **({"unit": "hour"} if by_time else {})}}
                output["window"] = {"documents": [-dice.randint(1, 3), dice.randint(0, 2)]}
            case "$covariancePop":
                output = {name: ["$n", "$_id"]}
            case "$locf" | "$linearFill":
                output = {name: dice.choice(["$v", "$n"])}
            case _:
                output = {name: {}}
    stage: Case = {"sortBy": sort, "output": {"r": output}}
    if dice.random() < 0.6:
        stage["partitionBy"] = dice.choice(["$g", {"$toUpper": "$g"}, "$s"])
    return {"$setWindowFields": stage}


def merge(dice: Random) -> Case:
    """A `$merge` into `target`, which has a unique index on `k`."""
    stage: Case = {"into": "target"}
    if dice.random() < 0.6:
        stage["on"] = dice.choice(["_id", "k", ["k"], ["_id"], "s"])
    match dice.randint(0, 6):
        case 0:
            stage["whenMatched"] = [{"$set": {"seen": {"$add": ["$$new._id", 1]}, "old": "$a"}}]
        case 1:
            stage["let"] = {"x": "$a"}
            stage["whenMatched"] = [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"x": "$$x"}]}}]
        case 2:
            stage["whenMatched"] = [{"$unset": "a"}]
        case _:
            stage["whenMatched"] = dice.choice(["replace", "keepExisting", "merge", "fail", "bogus"])
    if dice.random() < 0.7:
        stage["whenNotMatched"] = dice.choice(["insert", "discard", "fail"])
    return {"$merge": stage}


def before_merge(dice: Random) -> list[Case]:
    return dice.choice(
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


def moment(dice: Random) -> DatetimeMS:
    return DatetimeMS(dice.choice([dice.randint(0, 2 * 10**12), dice.randint(-(10**13), 10**13)]))


def date_expression(dice: Random) -> Any:
    zone: Case = {"timezone": dice.choice(ZONES)} if dice.random() < 0.7 else {}
    kind = dice.randint(0, 6)
    if kind == 0:
        ranges = {"month": 15, "day": 40, "hour": 30, "minute": 70, "second": 70, "millisecond": 2000}
        parts: Case = {name: dice.randint(-top, top) for name, top in ranges.items() if dice.random() < 0.5}
        return {"$dateFromParts": {"year": dice.choice([dice.randint(1, 3000), 0, 10000]), **parts, **zone}}
    if kind == 1:
        parts = {"isoWeek": dice.randint(-5, 60), "isoDayOfWeek": dice.randint(-2, 9)}
        return {"$dateFromParts": {"isoWeekYear": dice.randint(1900, 2100), **parts, **zone}}
    if kind == 2:
        return {"$dateToParts": {"date": moment(dice), "iso8601": dice.random() < 0.5, **zone}}
    if kind == 3:
        return {"$dateFromString": {"dateString": text_of_date(dice), "onError": "bad", **zone}}
    if kind == 4:
        weekday = {"startOfWeek": dice.choice(WEEKDAYS)} if dice.random() < 0.5 else {}
        unit = {"unit": dice.choice(UNITS), "binSize": dice.choice([1, 3, 10, 500])}
        return {"$dateTrunc": {"date": moment(dice), **unit, **weekday, **zone}}
    if kind == 5:
        unit = {"unit": dice.choice(UNITS), "amount": dice.choice([dice.randint(-99, 99), 2**31, Int64(2**60)])}
        return {dice.choice(["$dateAdd", "$dateSubtract"]): {"startDate": moment(dice), **unit, **zone}}
    layout = ["%Y", "%d %H %z", "%G-%V-%u", "%L"]
    return {"$dateToString": {"date": moment(dice), "format": "/".join(dice.sample(layout, 2)), **zone}}


def text_of_date(dice: Random) -> str:
    day = f"{dice.randint(1990, 2030)}-{dice.randint(1, 13):02}-{dice.randint(1, 31):02}"
    hour = f"{dice.randint(0, 25):02}:{dice.randint(0, 60):02}"
    return dice.choice(
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


def decimal(dice: Random) -> Decimal128:
    digits = str(dice.randint(0, 10 ** dice.randint(1, 34) - 1))
    sign, exponent = dice.choice(["", "-"]), dice.choice([0, -1, -2, -5, 3, -20, 20, -33, -6100, 6000])
    return dice.choice([Decimal128(f"{sign}{digits}E{exponent}"), Decimal128(f"{sign}{digits[:3]}E{exponent}")])


def decimal_expression(dice: Random) -> Any:
    one = {"$literal": decimal(dice)}
    other = {"$literal": dice.choice([decimal(dice), dice.randint(-9, 9), dice.uniform(-5, 5), Int64(2**53 + 1)])}
    operands = dice.choice([[one, other], [other, one]])
    binary = ["$add", "$subtract", "$multiply", "$divide", "$mod", "$cmp", "$eq", "$lt", "$max", "$min", "$sum", "$avg"]
    unary = ["$abs", "$ceil", "$floor", "$sqrt", "$toString", "$toDouble", "$toInt", "$toLong", "$toBool", "$trunc"]
    unary += ["$round", "$toDate", "$ln", "$atan", "$asinh", "$sin", "$cos", "$tan", "$exp", "$type", "$bsonSize"]
    kind = dice.random()
    if kind < 0.5:
        return {dice.choice(binary): operands}
    if kind < 0.85:
        return {dice.choice(unary): [one]}
    return {dice.choice(["$round", "$trunc"]): [one, dice.randint(-20, 40)]}


def collated(dice: Random) -> Case:
    """An aggregation over `rows` under a collation, in an order that does not depend on how equal words come."""
    stages: list[Case] = dice.choice(
        [
            [{"$match": {"s": {dice.choice(["$gt", "$lte", "$in", "$ne"]): dice.choice(WORDS)}}}],
            [{"$match": {"t": dice.choice(WORDS)}}],
            [{"$match": {"$expr": {"$lt": ["$s", dice.choice(WORDS)]}}}],
            [{"$project": {"r": {"$in": [dice.choice(WORDS), "$t"]}}}],
            [{"$project": {"r": {"$indexOfArray": ["$t", dice.choice(WORDS)]}}}],
            [{"$project": {"r": {"$cmp": ["$s", dice.choice(WORDS)]}}}],
            [{"$project": {"r": {"$setIntersection": ["$t", [dice.choice(WORDS)]]}}}],
            [{"$project": {"r": {"$eq": [{"$max": "$t"}, "$s"]}}}],
            [{"$group": {"_id": "$s", "n": {"$sum": 1}}}, {"$group": {"_id": "$n", "m": {"$sum": 1}}}],
            [{"$group": {"_id": None, "r": {"$addToSet": "$s"}}}, {"$project": {"n": {"$size": "$r"}}}],
            [{"$bucket": {"groupBy": "$s", "boundaries": ["", "b", "d"], "default": "z"}}],
            [
                {"$lookup": {"from": "rows", "localField": "s", "foreignField": "t", "as": "r"}},
                {"$project": {"r": {"$size": "$r"}}},
            ],
            [{"$sort": {"s": 1, "_id": 1}}, {"$group": {"_id": 0, "r": {"$push": "$_id"}}}],
            [{"$project": {"r": {"$sortArray": {"input": [dice.choice(WORDS), dice.choice(WORDS)], "sortBy": 1}}}}],
        ]
    )
    pipeline = [*stages, {"$sort": {"_id": 1}}]
    return {
        "aggregate": "rows",
        "pipeline": pipeline,
        "cursor": {"batchSize": 1000},
        "collation": dice.choice(COLLATIONS),
    }


def group(dice: Random) -> list[Case]:
    """A `$group` by something, in the order of what it was grouped by."""
    key = dice.choice(["$g", None, {"g": "$g", "e": {"$gt": ["$v", 2]}}, "$v", ["$g"], {"$type": "$v"}])
    output = accumulator(dice)
    if not isinstance(key, str) and output.keys() & {"$min", "$max"}:
        # Which of equal numbers of different types is taken depends on the engine that the reference chooses.
        key = None
    ordered = [{"$sort": {"_id": 1}}]
    return [*ordered, {"$group": {"_id": key, "r": output}}, {"$sort": {"_id": 1}}]
