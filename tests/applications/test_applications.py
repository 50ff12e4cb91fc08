"""Every application runs to its end on a replica set, through a router, and through two of a cluster that has users and
encrypts: it asserts on its way what it was told.

Skipped where `scripts/applications` has not installed the packages. An application is a program that gets the
connection string as its argument.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.testing import Cluster, ReplicaSet
from scripts import cluster
from scripts.deployment import stopped_at_end
from tests.harness.deployment import ForkedDeployment

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".venv-applications"
PYTHON = INSTALLED / "bin" / "python"
PACKAGES = INSTALLED / "node_modules"
MONGOD = Path(sys.executable).with_name("mongod")
needs_node = pytest.mark.skipif(
    not PACKAGES.exists() or shutil.which("node") is None, reason="scripts/applications installs the packages"
)
pytestmark = [pytest.mark.applications, pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=["set", "router", "secured"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "secured":
        with secured_cluster(tmp_path_factory.mktemp("secured")) as address:
            yield address
        return
    with ReplicaSet(members=1) if request.param == "set" else Cluster(shards=2) as deployment:
        yield deployment.uri


@contextlib.contextmanager
def secured_cluster(directory: Path) -> Iterator[str]:
    """As `scripts/cluster up --auth --tls` makes it."""
    size = argparse.Namespace(shards=2, members=1, config=1, routers=2, auth=True, tls=True)
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        assert cluster.up(deployment, size) == 0
        password = cluster.Secrets(directory).password_file.read_text()
        yield f"{cluster.address_of(deployment, f'root:{password}@')}&authSource=admin"


def run(*command: str | Path, cwd: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # A short name: sockets below it have little room for theirs.
    with tempfile.TemporaryDirectory(prefix="app") as scratch:
        environment["TMPDIR"] = scratch
        ran = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=500
        )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]


@pytest.mark.skipif(not PYTHON.exists(), reason="scripts/applications installs the packages")
@pytest.mark.parametrize("program", sorted(path.stem for path in (HERE / "python").glob("*.py")))
def test_applications_in_python(program: str, uri: str, tmp_path: Path) -> None:
    run(PYTHON, "-W", "ignore", HERE / "python" / f"{program}.py", uri, cwd=tmp_path)


def run_under_node(program: Path, argument: str, directory: Path) -> None:
    """Run a program in a directory: it is copied, since Node.js looks for packages in the directories above it."""
    for path in (program, HERE / "node" / "package.json"):
        shutil.copy(path, directory)
    (directory / "node_modules").symlink_to(PACKAGES)
    run("node", directory / program.name, argument, cwd=directory)


@needs_node
@pytest.mark.parametrize("program", sorted(path.stem for path in (HERE / "node").glob("*.js")))
def test_applications_under_node(program: str, uri: str, tmp_path: Path) -> None:
    run_under_node(HERE / "node" / f"{program}.js", uri, tmp_path)


@needs_node
@pytest.mark.parametrize("program", sorted(path.stem for path in (HERE / "starters").glob("*.js")))
def test_libraries_under_node_that_start_servers(program: str, tmp_path: Path) -> None:
    """They get the path of the executable, and look for what it prints."""
    run_under_node(HERE / "starters" / f"{program}.js", str(MONGOD), tmp_path)
