"""The reference mongod, which the command in DOCSTORE_REFERENCE runs, for as long as something is measured."""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pymongo

from scripts.deployment import Member, places_of, unused_port
from scripts.measuring import server_pid

REFERENCE_SET = "reference"
"""The name of the set, where members of one are measured."""


def is_there() -> bool:
    """Whether there is a reference to compare with."""
    return bool(os.environ.get("DOCSTORE_REFERENCE"))


def command() -> list[str]:
    """What runs it, where there is one; its options come behind that."""
    return shlex.split(os.environ["DOCSTORE_REFERENCE"])


def start(stack: ExitStack, directory: Path, *more: str) -> str:
    """The reference on a free port; gives its address."""
    port = unused_port()
    directory.mkdir()
    arguments = [*command(), *places_of(directory, port), *more]
    # A session of its own, as ours has: the system's scheduler may share the processor out by session.
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, start_new_session=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return f"127.0.0.1:{port}"


def member(stack: ExitStack, directory: Path, *more: str) -> Member:
    """The same, as a member of a deployment that nobody else stops."""
    address = start(stack, directory, *more)
    with closing(pymongo.MongoClient[dict[str, Any]](address, directConnection=True)) as client:
        return Member(directory.name, "", [], port=int(address.rpartition(":")[2]), pid=server_pid(client))
