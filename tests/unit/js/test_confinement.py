"""What a process that runs users' JavaScript cannot do, whoever has got hold of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docstore.js import confinement
from docstore.js.confinement import EnforcedLimits

ROOT = Path(__file__).parents[3]

ATTEMPTS = """
import ctypes, os, platform, resource, socket, sys, threading
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
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *numbers, arguments=()):
    # By its number on x86-64 or ARM64.
    number = numbers[platform.machine() == "aarch64"]
    def act():
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), "")
    told(name, act)

call("tgkill", 234, 131, arguments=(os.getpid(), os.getpid(), 0))
call("kill oneself", 62, 129, arguments=(os.getpid(), 0))
call("limits of another", 302, 261, arguments=(os.getppid(), 7, None, ctypes.create_string_buffer(16)))
call("a limit", 302, 261, arguments=(0, 7, ctypes.create_string_buffer(16), None))
call("pidfd", 434, 434, arguments=(os.getppid(), 0))
call("clone3", 435, 435, arguments=(None, 0))
call("personality", 135, 92, arguments=(0xFFFFFFFF,))
call("name", 157, 167, arguments=(15, b"renamed"))
call("dumpable", 157, 167, arguments=(4, 1))
call("terminal", 16, 29, arguments=(0, 0x5412, b"x"))
told("permissions", lambda: os.chmod(spill / "run", 0o777))
told("times", lambda: os.utime(spill / "run", (0, 0)))
told("owner", lambda: os.chown(spill / "run", 0, 0))
told("link", lambda: os.symlink("run", spill / "link"))
told("own limits", lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
told("data", lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, resource.RLIM_INFINITY)))
print("core", *resource.getrlimit(resource.RLIMIT_CORE), "dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
print("held", *held)
"""
FILES = {"read in a thread", "read", "list", "write outside"}
CALLS = {
    "socket", "unix socket", "fork", "exec", "kill", "tgkill", "kill oneself", "limits of another", "a limit",
    "personality", "dumpable", "terminal", "permissions", "times", "owner", "link",
}  # fmt: skip
UNKNOWN = {"pidfd", "clone3"}
"""Calls that the C library does without where a system has none."""


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
        assert {name: rows[name] for name in CALLS} == dict.fromkeys(CALLS, "PermissionError")
        assert {rows[name] for name in UNKNOWN} == {"OSError"}
    assert [rows[name] for name in ("name", "own limits", "data")] == ["done"] * 3


@pytest.mark.parametrize(
    "offer",
    [EnforcedLimits(files=True, calls=True), EnforcedLimits(files=True, calls=False), EnforcedLimits(False, False)],
)
def test_what_stands_open_is_told_at_the_start(
    offer: EnforcedLimits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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


@pytest.mark.skipif(not Path("/usr/include/asm-generic/unistd.h").exists(), reason="the numbers stand in headers")
def test_the_numbers_of_calls_are_those_of_the_system() -> None:
    generic = Path("/usr/include/asm-generic/unistd.h").read_text()
    of_arm = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", generic)}
    of_arm["newfstatat"] = of_arm["fstatat"]
    assert {name: numbers[1] for name, numbers in confinement._ALLOWED.items()} == {
        name: of_arm[name] for name in confinement._ALLOWED
    }
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if header.exists():
        of_x86 = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", header.read_text())}
        ours = {name: numbers[0] for name, numbers in confinement._ALLOWED.items()} | confinement._OF_X86
        assert ours == {name: of_x86[name] for name in ours}
