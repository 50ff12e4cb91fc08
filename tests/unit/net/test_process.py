"""Starting and stopping real processes: the ready line, signals, exit codes, the background, the log."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from docstore.bson.compilation import kernel_form
from docstore.net.sockets import bind
from tests.harness.waiting import wait_until

PROGRAM = """
import asyncio
from docstore.net.process import StartError, run
from docstore.options import LOGGING, NETWORK, PROCESS, program

@program("thing", NETWORK, LOGGING, PROCESS)
def main(options):
    async def serve(process):
        if options.port == 1:
            raise StartError("port 1 is not for us", 48)
        if options.port == 2:
            raise OSError("what nobody expected")
        if options.port == 3:
            raise AssertionError("never")
        if options.port == 5:
            print("getting ready", flush=True)
            try:
                await asyncio.sleep(60)
            finally:
                print("taken down", flush=True)
        if options.port == 6:
            process.waiting("a worker")
            await asyncio.create_subprocess_exec("sleep", "600")
        process.ready("127.0.0.1", options.port)
        await process.stopped()
        print("taken down", flush=True)
    run("thing", serve, options)

main()
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "thing.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


def start(program: list[str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def next_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of standard output that is none of the log."""
    assert process.stdout is not None
    return next(line for line in process.stdout if not line.startswith("{"))


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end; return the exit code, standard output without the log's lines, and standard error."""
    out, err = process.communicate(timeout=20)
    plain = [line for line in out.splitlines(keepends=True) if not line.startswith("{")]
    return process.returncode, "".join(plain), err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_good_order(program: list[str], tmp_path: Path, number: int) -> None:
    pid_file = tmp_path / "pid"
    process = start(program, "--port", "4", "--pidfilepath", str(pid_file))
    assert next_line(process) == f"thing ready host=127.0.0.1 port=4 pid={process.pid}\n"
    assert pid_file.read_text() == f"{process.pid}\n"
    process.send_signal(number)
    code, out, _ = finish(process)
    assert (code, out) == (0, "taken down\n")
    assert not pid_file.exists()


def test_a_signal_before_it_is_ready_ends_the_process_too(program: list[str]) -> None:
    process = start(program, "--port", "5")
    assert next_line(process) == "getting ready\n"
    process.terminate()
    code, out, _ = finish(process)
    assert (code, out) == (0, "taken down\n")


@pytest.mark.parametrize(
    ("port", "code", "sentence"),
    [
        ("1", 48, "thing: port 1 is not for us"),
        ("2", 1, "thing: OSError: what nobody expected"),
        ("3", 14, ""),
        ("x", 2, "is not a valid integer"),
    ],
)
def test_a_process_that_cannot_start_says_why_in_its_exit_code(
    program: list[str], port: str, code: int, sentence: str
) -> None:
    result = finish(start(program, "--port", port))
    assert result[0] == code
    assert sentence in result[2]


def test_a_log_that_cannot_be_written_is_a_sentence(program: list[str], tmp_path: Path) -> None:
    code, _, err = finish(start(program, "--port", "4", "--logpath", str(tmp_path / "none" / "log")))
    assert code == 1
    assert "cannot write the log" in err


def forked(program: list[str], tmp_path: Path, port: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--fork", "--logpath", str(tmp_path / "log"), "--pidfilepath", str(tmp_path / "pid"), "--port", port]
    # The output is read to its end: nobody below may hold it open.
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=20, check=False, env=environment()
    )


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A child whose parent has left is a zombie until init takes it up.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_the_parent_returns_when_the_child_is_ready(program: list[str], tmp_path: Path) -> None:
    result = forked(program, tmp_path, "4")
    pid = int((tmp_path / "pid").read_text())
    try:
        assert result.returncode == 0
        assert result.stdout.splitlines()[-1] == f"thing ready host=127.0.0.1 port=4 pid={pid}"
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: gone(pid), 10)
    assert not (tmp_path / "pid").exists()


def test_whoever_reads_the_parents_output_reads_to_its_end_though_the_child_has_started_others(
    program: list[str], tmp_path: Path
) -> None:
    result = forked(program, tmp_path, "6")
    pid = int((tmp_path / "pid").read_text())
    workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    try:
        assert result.returncode == 0
        assert result.stdout.splitlines()[1] == "thing: waiting: a worker"
        for each in (str(pid), *workers):
            held = {os.readlink(f"/proc/{each}/fd/{number}") for number in (0, 1, 2)}
            assert held == {os.devnull}
    finally:
        for each in (pid, *map(int, workers)):
            os.kill(each, signal.SIGTERM)
    wait_until(lambda: gone(pid), 10)


def test_the_parent_fails_with_the_child(program: list[str], tmp_path: Path) -> None:
    result = forked(program, tmp_path, "1")
    assert result.returncode == 48
    assert "port 1 is not for us" in result.stderr


def test_the_log_tells_what_happened_in_the_real_servers_shape(program: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(program, "--port", "4", "--logpath", str(log))
    next_line(process)
    process.terminate()
    finish(process)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(list(line)[:6] == ["t", "s", "c", "id", "ctx", "msg"] for line in lines)
    ready = next(line for line in lines if line["msg"] == "Waiting for connections")
    assert ready["attr"]["line"] == f"thing ready host=127.0.0.1 port=4 pid={process.pid}"
    assert (ready["s"], ready["c"]) == ("I", "CONTROL")


@pytest.mark.parametrize("asked", [None, "interpreted"])
def test_the_log_says_in_which_form_the_kernel_runs(
    program: list[str], tmp_path: Path, asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked is not None:
        monkeypatch.setenv("DOCSTORE_KERNEL", asked)
    log = tmp_path / "log"
    finish(start(program, "--port", "1", "--logpath", str(log)))
    build = next(line for line in map(json.loads, log.read_text().splitlines()) if line["msg"] == "Build Info")
    assert build["attr"]["buildInfo"]["kernel"] == (asked or kernel_form())


def test_the_port_of_another_process_is_refused_before_anything_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            bind(["127.0.0.1"], taken.getsockname()[1])


def test_a_free_port_is_the_same_on_every_address() -> None:
    sockets = bind(["127.0.0.1", "127.0.0.2"], 0)
    try:
        assert len({each.getsockname()[1] for each in sockets}) == 1
    finally:
        for each in sockets:
            each.close()
