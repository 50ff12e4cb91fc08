"""Every name is served or known not to be, and none is both."""

from __future__ import annotations

from docstore.aggregation import unsupported
from docstore.aggregation.accumulators.accumulators import ACCUMULATORS
from docstore.aggregation.accumulators.n_values import CHOOSING
from docstore.aggregation.stages.table import STAGES
from docstore.query.update.parse import OPERATORS as UPDATE_OPERATORS

STAGES_OF_6_0 = [
    "$match",
    "$project",
    "$group",
    "$sort",
    "$limit",
    "$skip",
    "$unwind",
    "$count",
    "$out",
    "$geoNear",
    "$redact",
    "$lookup",
    "$sample",
    "$indexStats",
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$collStats",
    "$facet",
    "$graphLookup",
    "$replaceRoot",
    "$sortByCount",
    "$currentOp",
    "$listLocalSessions",
    "$listSessions",
    "$set",
    "$unset",
    "$replaceWith",
    "$merge",
    "$planCacheStats",
    "$changeStream",
    "$unionWith",
    "$setWindowFields",
    "$documents",
    "$densify",
    "$fill",
    "$shardedDataDistribution",
]
ACCUMULATORS_OF_6_0 = [
    "$accumulator",
    "$addToSet",
    "$avg",
    "$bottom",
    "$bottomN",
    "$count",
    "$first",
    "$firstN",
    "$last",
    "$lastN",
    "$max",
    "$maxN",
    "$mergeObjects",
    "$min",
    "$minN",
    "$push",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$top",
    "$topN",
]
UPDATES_OF_6_0 = [
    "$currentDate",
    "$inc",
    "$min",
    "$max",
    "$mul",
    "$rename",
    "$set",
    "$setOnInsert",
    "$unset",
    "$addToSet",
    "$pop",
    "$pull",
    "$push",
    "$pullAll",
    "$bit",
]


def test_no_name_is_both_served_and_not() -> None:
    assert not unsupported.STAGES & STAGES.keys()


def test_every_stage_and_accumulator_is_known() -> None:
    assert set(STAGES_OF_6_0) == unsupported.STAGES | STAGES.keys()
    assert set(ACCUMULATORS_OF_6_0) == ACCUMULATORS.keys() | CHOOSING | {"$accumulator", "$count"}


def test_every_update_operator_is_served() -> None:
    assert set(UPDATES_OF_6_0) == UPDATE_OPERATORS.keys() | {"$rename"}
