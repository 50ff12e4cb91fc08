"""A cluster of real processes under faults, and a judgement of what its clients saw.

    scripts/torture bombs|pings|rolling|rolling-cluster|logins
    scripts/torture fuzz|narrow [--frames N] [--seed S]
    scripts/torture set3|set5|shards --minutes N [--seed S] [--reference] [--judge-w1-as-majority] [--keep DIRECTORY]

The run has namespaces of its own for network, mounts and processes (made with `unshare`; who is not root gets a user
namespace too), so every server has an address of its own, any direction between two can be cut, and nothing outlives
the run. Where namespaces are not allowed, or with `--proxy`, everything goes through a proxy in user space. The seed
decides which faults come in which order, not when each packet arrives: a run cannot be replayed, but its kind can.
Exit status 1 when there was an anomaly.

`bombs` throws the small requests that ask for much at a node and at a router, with pings; `pings` measures how long the
members of a set keep others waiting while they roll back, copy, build and drop; `fuzz` sends broken and odd messages to
a node with users, as a stranger and as one who may read; `narrow` sends what users with few privileges may ask for to a
real server and to ours, a node and a router, and compares; `rolling` brings key files, access control and encryption to
a set that is written to, `rolling-cluster` to a cluster; `logins` measures whether the time of a failed login tells who
there is. These do without namespaces.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts import reference
from tests.torture.bombs import throw_bombs
from tests.torture.fuzz import fuzz
from tests.torture.logins import measure_logins
from tests.torture.narrow import ask_for_few
from tests.torture.pings import measure_pings
from tests.torture.report import Report
from tests.torture.rolling import Topology, a_cluster, a_set, roll
from tests.torture.sets import Plan, torture_set
from tests.torture.shards import torture_shards

INSIDE = "DOCSTORE_TORTURE_DIRECTORY"
"""Set for the process inside the namespaces: the directory of the run."""
MEMBERS = {"set3": 3, "set5": 5, "shards": 3}
SAMPLES = 2000
TOLD_APART = 4.0
"""Deviations by which no sample is from one of its own kind."""
ROLLED = {"rolling": a_set, "rolling-cluster": a_cluster}


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if arguments.configuration == "bombs":
        with tempfile.TemporaryDirectory(prefix="docstore-bombs-") as made:
            return 1 if throw_bombs(Path(made)) else 0
    if arguments.configuration == "pings":
        with tempfile.TemporaryDirectory(prefix="docstore-pings-") as made:
            measure_pings(Path(made))
        return 0
    if arguments.configuration == "fuzz":
        with tempfile.TemporaryDirectory(prefix="docstore-fuzz-") as made:
            return _fuzz(Path(made), arguments)
    if arguments.configuration == "narrow":
        with tempfile.TemporaryDirectory(prefix="docstore-narrow-") as made:
            return _ask_for_few(arguments.keep or Path(made), arguments)
    if arguments.configuration == "logins":
        with tempfile.TemporaryDirectory(prefix="docstore-logins-") as made:
            return 1 if any(abs(each.z) > TOLD_APART for each in measure_logins(Path(made), SAMPLES)) else 0
    if arguments.configuration in ROLLED:
        with tempfile.TemporaryDirectory(prefix="docstore-rolling-") as made:
            return _roll(arguments.keep or Path(made), ROLLED[arguments.configuration]())
    directory = os.environ.get(INSIDE)
    arguments.proxy = directory is None and (arguments.proxy or not namespaces_allowed())
    if directory is not None:
        return _run(arguments, Path(directory))
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        return _enter(arguments, arguments.keep.absolute())
    temporary = Path(tempfile.mkdtemp(prefix="docstore-torture-"))
    try:
        return _enter(arguments, temporary)
    finally:
        shutil.rmtree(temporary)


def _fuzz(directory: Path, arguments: Any) -> int:
    print(f"fuzz, {arguments.frames} messages, seed {arguments.seed}", flush=True)
    found = fuzz(directory, arguments.frames, arguments.seed)
    codes = ", ".join(f"{code}: {count}" for code, count in found.codes.most_common(20))
    print(f"{found.frames} messages in {found.conversations} conversations; answers by code: {codes}")
    print("\n".join(found.wrong[:20]) or "nothing wrong")
    return 1 if found.wrong else 0


def _ask_for_few(directory: Path, arguments: Any) -> int:
    if not reference.is_there():
        print("narrow compares with a real server: DOCSTORE_REFERENCE names none", file=sys.stderr)
        return 2
    print(f"narrow, {arguments.frames} requests, seed {arguments.seed}", flush=True)
    found = ask_for_few(directory, arguments.frames, arguments.seed)
    print(found)
    return 1 if found.wrong else 0


def _roll(directory: Path, topology: Topology) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    found = roll(directory, topology)
    pause = max(pause for _, _, pause in found.steps)
    print(f"{len(found.acknowledged)} documents acknowledged, longest pause {pause:.2f} s")
    print("\n".join(found.wrong) or "nothing wrong")
    return 1 if found.wrong else 0


def namespaces_allowed() -> bool:
    """Whether `namespaces` works here."""
    try:
        return not subprocess.run([*namespaces(), "true"], check=False, capture_output=True).returncode
    except FileNotFoundError:
        return False


def namespaces() -> list[str]:
    """What goes in front of a command that is to have network, mounts and processes of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "configuration", choices=sorted((*MEMBERS, *ROLLED, "bombs", "pings", "fuzz", "narrow", "logins"))
    )
    parser.add_argument("--frames", type=int, default=1_000_000, help="messages of `fuzz` and `narrow` [%(default)s]")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--reference", action="store_true", help="run on what DOCSTORE_REFERENCE starts")
    parser.add_argument("--proxy", action="store_true", help="no namespaces, but a proxy between the servers")
    parser.add_argument("--judge-w1-as-majority", action="store_true", help="must find anomalies: shows that we look")
    parser.add_argument("--keep", type=Path, help="leave data, logs, history and faults in this directory")
    return parser.parse_args()


def _enter(arguments: Any, directory: Path) -> int:
    """This script again, in namespaces of its own, unless there are none."""
    if arguments.proxy:
        return _run(arguments, directory)
    process = subprocess.Popen(
        [*namespaces(), sys.executable, *sys.argv], env={**os.environ, INSIDE: str(directory)}, stdin=subprocess.DEVNULL
    )
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()


def _run(arguments: Any, directory: Path) -> int:
    program = os.environ.get("DOCSTORE_REFERENCE") if arguments.reference else None
    if arguments.reference and (program is None or arguments.configuration == "shards"):
        print("a reference is for sets, where DOCSTORE_REFERENCE names one", file=sys.stderr)
        return 2
    plan = Plan(
        members=MEMBERS[arguments.configuration],
        seconds=arguments.minutes * 60,
        seed=arguments.seed,
        directory=directory,
        reference=program,
        judge_w1_as_majority=arguments.judge_w1_as_majority,
        proxied=arguments.proxy,
    )
    print(f"{arguments.configuration}, {arguments.minutes} minutes, seed {arguments.seed}", flush=True)
    torture = torture_shards if arguments.configuration == "shards" else torture_set
    report: Report = asyncio.run(torture(plan))
    print(report, flush=True)
    return 1 if report.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
