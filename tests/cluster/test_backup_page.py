"""The commands of docs/backup.md do what the page says and print what it shows, on other ports."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from pymongo import MongoClient

from docstore.backup.program import main
from docstore.testing import Cluster, ReplicaSet
from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.documented import DOCUMENTS, free_ports

pytestmark = pytest.mark.cluster

PARTS = re.split(r"^## A cluster$", (DOCUMENTS / "backup.md").read_text(), flags=re.MULTILINE)
SET, CLUSTER = PARTS[0] + PARTS[1][PARTS[1].index("## What old") :], PARTS[1][: PARTS[1].index("## What old")]
_COMMAND = re.compile(r"^    (.+)$", re.MULTILINE)
_SHOWN = re.compile(r"^```\n(.+?)^```", re.MULTILINE | re.DOTALL)


def test_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ReplicaSet(members=1) as source:
        client = source.client()
        client["shop"]["orders"].insert_many({"_id": n} for n in range(100))
        page = Page(SET, tmp_path, source.uri)
        with stopped_at_end(page.deployment):
            page.carry_out()
            for name, uri in (("a", "replicaSet=other"), ("c", "replicaSet=rs0")):
                with MongoClient(f"mongodb://{page.deployment.members[name].address}/?{uri}") as restored:
                    assert restored["shop"]["orders"].count_documents({}) == 100
    assert len(page.listed) == 3


def test_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Cluster(shards=2) as source:
        source.client()["shop"]["orders"].insert_many({"_id": n} for n in range(100))
        page = Page(CLUSTER, tmp_path, source.uri)
        with stopped_at_end(page.deployment):
            page.carry_out()
            with MongoClient(page.deployment.members["router"].address) as restored:
                assert restored["shop"]["orders"].count_documents({}) == 100


class Page:
    """A part of the page. What it says of names and times that are new in each run is replaced by those."""

    def __init__(self, text: str, directory: Path, uri: str) -> None:
        self.deployment = ForkedDeployment(directory)
        self.listed: list[str] = []
        self._uri = uri
        self._lines = _COMMAND.findall(text)
        self._shown = _SHOWN.findall(text)
        names = sorted(set(re.findall(r"\b27\d{3}\b", " ".join(self._lines))))
        self._ports = dict(zip(names, map(str, free_ports(len(names))), strict=True))

    def carry_out(self) -> None:
        for line in self._lines:
            words = shlex.split(re.sub(r"\b27\d{3}\b", lambda found: self._ports.get(found[0], found[0]), line))
            if words[0] == "docstore":
                self._run(words[1:])
            else:
                self._start(words)

    def _run(self, words: list[str]) -> None:
        if "create" in words:
            place = words.index("--port")
            words[place : place + 2] = ["--uri", self._uri]
        words = [self._of_this_run(word) for word in words]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, (words, result.output, result.exception)
        if "list" in words:
            self.listed = result.stdout.splitlines()
            assert self._form(result.stdout) == self._form(self._shown[0])

    def _of_this_run(self, word: str) -> str:
        if not self.listed:
            return word
        if re.fullmatch(r"\d{6}-\w+", word):
            return next(line.split()[0] for line in self.listed if line.startswith(word[:6]))
        if re.fullmatch(r"\d{10}:\d+", word):
            return self.listed[1].split()[3]
        return word

    @staticmethod
    def _form(text: str) -> str:
        return re.sub(r" +", " ", re.sub(r"\d+", "0", text))

    def _start(self, words: list[str]) -> None:
        program, *arguments = words
        port = int(_taken(arguments, "--port"))
        name = "router" if program == "mongos" else _taken(arguments, "--dbpath")
        self.deployment.start(Member(name, program, arguments, port))


def _taken(arguments: list[str], option: str) -> str:
    place = arguments.index(option)
    value = arguments[place + 1]
    del arguments[place : place + 2]
    return value
