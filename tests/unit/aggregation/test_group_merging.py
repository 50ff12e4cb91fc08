"""States of a distributed group that come in: the kernel merges them as the stage's own accumulators do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import bson
import pytest

from docstore.aggregation.split import split_pipeline
from docstore.aggregation.stage import Environment
from docstore.aggregation.stages.group import Group, general_run
from docstore.aggregation.streams import Pushed
from tests.differential import randomly
from tests.unit.aggregation.running import DiskSpace, FewAtATime, drain, parsed
from tests.unit.query.raw import raw

FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    **{
        name: lambda path, name=name: {name: path}  # type: ignore[misc]
        for name in ("$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$stdDevPop")
    },
    "$count": lambda _: {"$count": {}},
    "$mergeObjects": lambda _: {"$mergeObjects": "$d"},
    **{
        name: lambda path, name=name: {name: {"n": 2, "input": path}}  # type: ignore[misc]
        for name in ("$firstN", "$lastN", "$minN", "$maxN")
    },
    **{
        name: lambda path, name=name: {name: {"sortBy": {"a": 1, "_id": -1}, "output": [path, "$_id"]}}  # type: ignore[misc]
        for name in ("$top", "$bottom")
    },
}
KEYS: list[Any] = ["$k", None, {"x": "$k", "y": "$a"}, ["$k"]]


def halves(rng: Random, names: list[str]) -> tuple[Group, Group]:
    """The half of the shards and the one that merges."""
    fields = {f"f{number}": FIELDS[name](rng.choice(["$a", "$b", "$a.b"])) for number, name in enumerate(names)}
    split = split_pipeline(parsed([{"$group": {"_id": rng.choice(KEYS), **fields}}]))
    found = [parsed_raw(stages[0]) for stages in (split.shard_stages, split.merge_stages)]
    return found[0], found[1]


def parsed_raw(stage: bytes) -> Group:
    (found,) = parsed([bson.decode(stage)]).stages
    assert isinstance(found, Group)
    return found


def partial_groups(rng: Random, half: Group, environment: Environment) -> list[bytes]:
    documents = []
    for row in randomly.documents(rng, rng.randint(0, 12)):
        row["k"] = rng.choice([1, 1.0, "a", None, rng.randint(0, 3), float("nan")])
        documents.append(raw({**row, "d": randomly.fields(rng)}))
    run = general_run(half, environment) if rng.random() < 0.5 else half.start(environment)
    return drain(Pushed(FewAtATime(documents), run, environment.clock))


@pytest.mark.parametrize("seed", range(150))
def test_merged_states_are_those_of_the_general_way(seed: int) -> None:
    rng = Random(seed)
    plenty = Environment(clock=lambda: 0.0)
    first, second = halves(rng, rng.choices(sorted(FIELDS), k=rng.randint(0, 4)))
    given = [part for _ in range(rng.randint(1, 4)) for part in partial_groups(rng, first, plenty)]
    expected = drain(Pushed(FewAtATime(given), general_run(second, plenty), plenty.clock))
    found = drain(Pushed(FewAtATime(given), second.start(plenty), plenty.clock))
    assert found == expected
    scarce = Environment(clock=lambda: 0.0, memory_limit=500, spill=DiskSpace())
    assert sorted(drain(Pushed(FewAtATime(given), second.start(scarce), scarce.clock))) == sorted(expected)
