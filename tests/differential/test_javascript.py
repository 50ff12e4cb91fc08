"""Every case of JavaScript on a real server and on one of ours: the same results and types, or the same codes."""

from __future__ import annotations

from typing import Any

import pymongo
import pytest
from bson.json_util import CANONICAL_JSON_OPTIONS, dumps

from scripts.deployment import Member, stopped_at_end
from tests.differential.javascript import cases
from tests.differential.javascript_texts import SMALL, TYPED
from tests.harness.deployment import ForkedDeployment
from tests.harness.reference import reference_server

pytestmark = [pytest.mark.reference, pytest.mark.cluster]

INTEGERS = "numbers in lists stay of the kind that they were stored as"
TEXT = "a document's text is that of any object"
EXPRESSION = "a mistake there: the slash at the end becomes part of the pattern"
BOXED = "an object around a value is written as the value"
OTHERWISE = {
    "field as text: bare": TEXT,
    "field as text: deep": TEXT,
    "field as text: doc": TEXT,
    "field out: deep": INTEGERS,
    "field out: list": INTEGERS,
    "field out: regex": EXPRESSION,
    "function gives: boxed boolean": BOXED,
    "function gives: boxed number": BOXED,
    "function gives: boxed string": BOXED,
    "function gives: hole": "a hole in a list is written as null, as in map-reduce",
    "function gives: regex": EXPRESSION,
    "language: Map": "Map is the language's own",
    "out: normal": "the old name of replace is still taken",
    "scope: deep": INTEGERS,
    "scope: list": INTEGERS,
    "source: code with scope": "map and reduce may have a scope",
    "value out: boxed boolean": BOXED,
    "value out: boxed number": BOXED,
    "value out: boxed string": BOXED,
    "where: comment": "a comment at the end of an expression ends with it",
}
"""Cases that do not agree, with the reason; docs/differences.md tells of them."""


def test_scripts_do_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    deployment = ForkedDeployment(tmp_path_factory.mktemp("javascript"))
    with reference_server(tmp_path_factory.mktemp("reference")) as port, stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        theirs, ours = (run(each) for each in (port, node.port))
    assert len(ours) >= 300
    differing = {name for name, outcome in ours.items() if outcome != theirs[name]}
    unexpected = sorted(differing - OTHERWISE.keys())
    told = "\n".join(f"{name}\n  reference {theirs[name]}\n  ours      {ours[name]}" for name in unexpected[:10])
    assert not unexpected, f"{len(unexpected)} differ:\n{told}"
    assert not OTHERWISE.keys() - differing, "these agree by now"


def run(port: int) -> dict[str, str]:
    """The outcomes of all cases on the server of that port, by name."""
    with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
        client.test.typed.insert_many(TYPED)
        client.test.small.insert_many(SMALL)
        return {
            name: " ".join(outcome(client.test.command(command, check=False)) for command in commands)
            for name, commands in cases().items()
        }


def outcome(reply: dict[str, Any]) -> str:
    """The documents of a reply with their types, in no order where it promises none; or the code of its error."""
    if not reply["ok"]:
        return f"error {reply['code']}"
    if "results" in reply:
        return str(sorted(dumps(result, json_options=CANONICAL_JSON_OPTIONS) for result in reply["results"]))
    if "cursor" in reply:
        return dumps(reply["cursor"]["firstBatch"], json_options=CANONICAL_JSON_OPTIONS)
    return dumps({name: reply.get(name) for name in ("result", "writeErrors")}, json_options=CANONICAL_JSON_OPTIONS)
