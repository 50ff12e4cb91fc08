"""A real server and a node of ours that are told the same, and what of their replies is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import dumps
from bson.objectid import ObjectId
from pymongo.database import Database

from docstore.commands.limits import FACES
from tests.unit.node.local import LocalNode

Command = dict[str, Any]
OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
FAILURE = ("code", "codeName", "index", "keyPattern", "keyValue")


class Pair:
    """A real server and a node of ours that are told the same."""

    def __init__(self, reference: Database[dict[str, Any]]) -> None:
        self._reference = reference
        self._node = LocalNode(face=FACES["6.0"])

    async def both(self, command: Command) -> tuple[Any, Any]:
        """What is compared of both replies."""
        theirs = self._reference.command(command, check=False, codec_options=OPTIONS)
        return outcome(theirs), await self.ours(command)

    async def ours(self, command: Command) -> Any:
        """What is compared of our reply; the real server is told nothing."""
        return outcome(await self._node.reply(command, options=OPTIONS))

    async def plans(self, command: Command) -> tuple[Any, Any]:
        """The plan that each of the two carries a command out by, or the code of the refusal."""
        asked = {"explain": command, "verbosity": "queryPlanner"}
        theirs = self._reference.command(asked, check=False, codec_options=OPTIONS)
        return _plan(theirs), _plan(await self._node.reply(asked, options=OPTIONS))

    async def fill(self, **collections: list[dict[str, Any]]) -> None:
        for name, contents in collections.items():
            for command in ({"drop": name}, {"create": name}, {"insert": name, "documents": contents}):
                await self.both(command)


def _plan(reply: Mapping[str, Any]) -> Any:
    return dumps(reply["queryPlanner"]["winningPlan"]) if reply["ok"] else reply["code"]


def outcome(reply: Mapping[str, Any]) -> Any:
    """The documents of a reply, or its counts, or what distinguishes its errors; text of errors left out."""
    if not reply["ok"]:
        return {name: reply.get(name) for name in FAILURE}
    if "cursor" in reply:
        return dumps(comparable(reply["cursor"]["firstBatch"]))
    failures = [{name: error.get(name) for name in FAILURE} for error in reply.get("writeErrors", ())]
    counts = [reply.get(name) for name in ("n", "nModified", "upserted", "value", "lastErrorObject")]
    return dumps(comparable([failures, *counts]))


def comparable(value: Any) -> Any:
    """A value without what may differ: doubles lose their last digits, which depend on the order of the steps of a
    calculation, and identifiers that a server made up their digits.
    """
    if isinstance(value, dict):
        return {name: comparable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [comparable(member) for member in value]
    if isinstance(value, ObjectId) and value.generation_time.year > 2024:
        return "made up"
    return float(f"{value:.13g}") if type(value) is float else value
