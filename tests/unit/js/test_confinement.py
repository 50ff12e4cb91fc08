"""What a process that runs users' JavaScript cannot do, whoever has got hold of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docstore.js import confinement
from docstore.js.confinement import Held

ROOT = Path(__file__).parents[3]

ATTEMPTS = """
import ctypes, os, resource, socket, sys, threading
from pathlib import Path
from docstore.js.confinement import confine
spill, outside = Path(sys.argv[1]), Path(sys.argv[2])
held = confine(spill)

def told(name, act):
    try:
        act()
        print(f"{name}: done")
    except OSError as error:
        print(f"{name}: {type(error).__name__}")

told("write", lambda: (spill / "run").write_text("a"))
told("read back", lambda: (spill / "run").read_text())
told("module", lambda: Path(os.__file__).read_text())
thread = threading.Thread(target=lambda: told("read in a thread", outside.read_text))
thread.start(); thread.join()
told("read", outside.read_text)
told("list", lambda: os.listdir(outside.parent))
told("write outside", lambda: (outside.parent / "new").write_text("a"))
told("socket", socket.socket)
told("unix socket", lambda: socket.socket(socket.AF_UNIX))
told("fork", lambda: os.fork() or os._exit(0))
told("exec", lambda: os.execv(sys.executable, [sys.executable, "-c", "print('exec done')"]))
told("kill", lambda: os.kill(os.getppid(), 0))
print("core", *resource.getrlimit(resource.RLIMIT_CORE), "dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
print("held", *held)
"""
FILES = {"read in a thread", "read", "list", "write outside"}
CALLS = {"socket", "unix socket", "fork", "exec", "kill"}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's means")
def test_a_worker_has_its_spill_directory_and_nothing_else(tmp_path: Path) -> None:
    spill, outside = tmp_path / "spill", tmp_path / "data" / "secret"
    spill.mkdir()
    outside.parent.mkdir()
    outside.write_text("secret")
    command = [sys.executable, "-c", ATTEMPTS, str(spill), str(outside)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    *attempts, core, held = ran.stdout.splitlines()
    assert core == "core 0 0 dumpable 0"
    rows = dict(line.rsplit(": ", 1) for line in attempts)
    files, calls = (each == "True" for each in held.split()[1:])
    assert [rows[name] for name in ("write", "read back", "module")] == ["done"] * 3
    if files:
        assert {rows[name] for name in FILES} == {"PermissionError"}
        assert not (outside.parent / "new").exists()
    if calls:
        assert {rows[name] for name in CALLS} == {"PermissionError"}


@pytest.mark.parametrize("offer", [Held(files=True, calls=True), Held(files=True, calls=False), Held(False, False)])
def test_what_stands_open_is_told_at_the_start(
    offer: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(confinement, "offered", lambda: offer)
    confinement.warn_where_scripts_are_free()
    assert [("files" in line, "sockets" in line) for line in caplog.messages] == [
        row for row, held in (((True, False), offer.files), ((False, True), offer.calls)) if not held
    ]


def test_what_is_offered_is_what_is_held(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from docstore.js.confinement import *; print(offered() == confine(Path('.')))"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "True\n"
