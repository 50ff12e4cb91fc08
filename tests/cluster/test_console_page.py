"""The commands that docs/console.md shows do what the page says."""

from __future__ import annotations

import json
import shutil
import ssl
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pymongo
import pytest

from tests.harness.documented import DOCUMENTS, blocks, carried_out

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands use curl"),
]
PAGE = DOCUMENTS / "console.md"


def test_a_node_tells_its_figures(tmp_path: Path) -> None:
    with carried_out(tmp_path, blocks(PAGE)[0]) as done:
        assert 'docstore_operations_total{type="insert"} 0.0' in done.output
        with urllib.request.urlopen(f"http://127.0.0.1:{done.ports['28017']}/") as page:
            assert b"<title>Docstore</title>" in page.read()


def test_with_access_control_a_user_reads_them(tmp_path: Path) -> None:
    with carried_out(tmp_path, blocks(PAGE)[1]) as done:
        assert 'docstore_commands_total{command="createUser"} 2.0' in done.output
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{done.ports['28017']}/metrics")
        assert refused.value.code == 401
        refused.value.close()


def test_a_user_logs_in_by_certificate(tmp_path: Path) -> None:
    with carried_out(tmp_path, blocks(PAGE)[2]) as done:
        assert "docstore_scrape_failed{" not in (tmp_path / "metrics.txt").read_text()
        told = json.loads(done.output[done.output.index('{"authInfo"') :])
        users = told["authInfo"]["authenticatedUsers"]
        assert users == [{"user": "CN=monitor,OU=monitor,O=Example", "db": "$external"}]
        without = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(f"https://127.0.0.1:{done.ports['28017']}/metrics", context=without)
        assert refused.value.code == 401
        refused.value.close()


def test_a_command_is_sent_by_another_program(tmp_path: Path) -> None:
    assert len(blocks(PAGE)) == 4
    with carried_out(tmp_path, blocks(PAGE)[3]) as done:
        assert json.loads(done.output[done.output.index('{"n"') :])["n"] == {"$numberInt": "1"}
        with pymongo.MongoClient("127.0.0.1", done.ports["27017"]) as client:
            assert client["shop"]["orders"].count_documents({}) == 1
