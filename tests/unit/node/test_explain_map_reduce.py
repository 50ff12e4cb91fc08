"""explain of mapReduce on a node."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code
from mongod.document.commands.map_reduce import COMMAND
from tests.unit.node.local import LocalNode, loop

MAP, REDUCE, FINALIZE = "function() { emit(1, 1) }", "function(k, v) { return 1 }", "function(k, v) { return v }"


def command(**fields: Any) -> dict[str, Any]:
    return {"mapReduce": "c", "map": MAP, "reduce": REDUCE, "out": {"inline": 1}} | fields


def test_a_map_reduce_is_shown_as_stages_behind_its_search() -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        await node.insert("c", *({"_id": number} for number in range(5)))
        explain = {"explain": command(query={"_id": {"$gt": 1}}), "verbosity": "executionStats"}
        cursor, project, unwind, group = (await node.run(explain))["stages"]
        assert cursor["$cursor"]["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "IXSCAN"
        assert cursor["$cursor"]["executionStats"]["totalDocsExamined"] == 3
        assert project["$project"]["emits"]["$_internalJsEmit"]["eval"] == MAP
        assert unwind == {"$unwind": {"path": "$emits"}}
        assert group["$group"]["value"]["$_internalJsReduce"] == {"data": "$emits", "eval": REDUCE}
        explain = {"explain": command(out="o", finalize=FINALIZE, limit=2), "verbosity": "queryPlanner"}
        *_, finalized, written = (await node.run(explain))["stages"]
        assert finalized["$project"]["value"]["$function"]["body"] == FINALIZE
        assert written == {"$out": {"db": "test", "coll": "o"}}
        merged = (await node.run({"explain": command(out={"merge": "o", "db": "u"})}))["stages"][-1]["$merge"]
        assert (merged["into"], merged["whenMatched"]) == ({"db": "u", "coll": "o"}, "replace")
        reduced = (await node.run({"explain": command(out={"reduce": "o"})}))["stages"][-1]["$merge"]
        assert reduced["whenMatched"][0]["$project"]["value"]["$function"]["body"] == REDUCE
        names = (await node.run({"listCollections": 1}))["cursor"]["firstBatch"]
        assert [entry["name"] for entry in names] == ["c"]

    loop(work())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"map": 1}, Code.BadValue),
        ({"finalize": 1}, Code.BadValue),
        ({"query": 1}, Code.TypeMismatch),
        ({"x": 1}, 40415),
        ({"out": None}, 40414),
    ],
)
def test_a_wrong_map_reduce_is_not_explained(fields: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode(extra=(COMMAND,))
        map_reduce = {name: value for name, value in command(**fields).items() if value is not None}
        assert (await node.reply({"explain": map_reduce}))["code"] == code

    loop(work())
