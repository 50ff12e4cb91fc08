"""The commands that docs/security.md shows do what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from tests.harness.documented import DOCUMENTS, blocks, carried_out

pytestmark = pytest.mark.cluster
PAGE = DOCUMENTS / "security.md"


@pytest.mark.parametrize("number", range(5))
def test_the_commands_of_the_page_run(tmp_path: Path, number: int) -> None:
    assert len(blocks(PAGE)) == 5
    encryption: dict[str, Any] = {}
    if "--tlsMode" in blocks(PAGE)[number]:
        files = {"tlsCAFile": "ca.pem", "tlsCertificateKeyFile": "client.pem"}
        encryption = {"tls": True, **{option: str(tmp_path / file) for option, file in files.items()}}
    with carried_out(tmp_path, blocks(PAGE)[number]) as done:
        port = done.ports[max(done.ports)]
        with pymongo.MongoClient("127.0.0.1", port, directConnection=True, **encryption) as anybody:
            with pytest.raises(OperationFailure) as refusal:
                anybody.test.c.find_one()
            assert refusal.value.code == 13
        options: dict[str, Any] = {"username": "root", "password": "secret", "directConnection": True, **encryption}
        with pymongo.MongoClient("127.0.0.1", port, **options) as root:
            reading = pymongo.ReadPreference.SECONDARY_PREFERRED
            assert root.test.get_collection("c", read_preference=reading).count_documents({"a": 1}) == 1
