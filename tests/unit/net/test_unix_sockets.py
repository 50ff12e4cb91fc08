"""Files of sockets: whose they are, and when they are taken over."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from docstore.net.process import StartError
from docstore.net.unix_sockets import BoundUnixSocket


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("permissions", [0o700, 0o777, 0o600])
def test_a_file_has_its_permissions_and_goes_with_its_socket(tmp_path: Path, permissions: int) -> None:
    path = tmp_path / "a.sock"
    with BoundUnixSocket(path, permissions), socket.socket(socket.AF_UNIX) as client:
        assert mode(path) == permissions
        client.connect(str(path))
    assert not path.exists()


def test_the_file_of_a_server_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    abandoned = socket.socket(socket.AF_UNIX)
    abandoned.bind(str(path))
    abandoned.close()
    with BoundUnixSocket(path, 0o700), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_that_of_a_server_that_listens_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with BoundUnixSocket(path, 0o700), pytest.raises(StartError, match="another server is listening there"):
        BoundUnixSocket(path, 0o700)


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    path.write_text("precious")
    with pytest.raises(StartError, match="no socket"):
        BoundUnixSocket(path, 0o700)
    assert path.read_text() == "precious"


def test_a_file_that_has_become_anothers_stays_when_the_first_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    first = BoundUnixSocket(path, 0o700)
    path.unlink()
    with BoundUnixSocket(path, 0o700):
        first.close()
        assert path.exists()


@pytest.mark.parametrize("name", ["none/a.sock", "a" * 120])
def test_what_cannot_be_made_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(StartError, match="cannot listen on"):
        BoundUnixSocket(tmp_path / name, 0o700)
