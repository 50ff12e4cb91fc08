"""Options that stand twice: a real server refuses them with the codes that ours is tested with."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import bson
import pytest

from docstore.wire.message import encode_message
from tests.harness.reference import reference_server
from tests.unit.node.test_duplicate_fields import DOUBLED, code_of, document

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("reference")
    with reference_server(directory) as found:
        yield found


@pytest.mark.parametrize("case", DOUBLED)
def test_a_real_server_refuses_it_with_this_code(port: int, case: str) -> None:
    code, request = DOUBLED[case]
    inserted = {"insert": "c", "documents": [{"_id": 1, "x": 1, "a": []}], "$db": "test"}
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, connection.makefile("rb") as replies:
        for body in (bson.encode(inserted), document(*request)):
            connection.sendall(encode_message(body, request_id=1))
            size = int.from_bytes(replies.read(4), "little")
            reply = bson.decode(replies.read(size - 4)[17:])
    assert code_of(reply) == code
