"""A cluster to try things on: `cluster up` starts it, `cluster status` shows it, `cluster down` stops it.

With `--auth` and `--tls` it is one that nobody gets into who has not its files: a key, the password of the user `root`,
an authority of its own and certificates that this has signed.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pymongo
from pymongo.errors import PyMongoError

from scripts.deployment import Deployment, Member, StartFailed, replica_set
from tests.harness.certificates import Authority, name

SET_SETTINGS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500}
DAYS = 365
"""For which certificates are good."""


@dataclass(frozen=True)
class Secrets:
    """The files of a cluster that clients and processes prove themselves with; without them nobody has to."""

    directory: Path

    @property
    def key_file(self) -> Path:
        return self.directory / "key"

    @property
    def password_file(self) -> Path:
        return self.directory / "password"

    @property
    def certificates(self) -> Path:
        return self.directory / "certificates"

    def make(self, *, auth: bool, tls: bool) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if auth:
            _write_private(self.key_file, secrets.token_urlsafe(256).replace("-", "+").replace("_", "/"))
            _write_private(self.password_file, secrets.token_urlsafe(16))
        if tls:
            authority = Authority(self.certificates, days=DAYS)
            for role in ("server", "client"):
                authority.issue(role, name(O="Docstore", OU=role, CN=role), days=DAYS)

    def server_arguments(self) -> list[str]:
        key = ["--keyFile", str(self.key_file)] if self.key_file.exists() else []
        if not self.certificates.exists():
            return key
        files = {"--tlsCertificateKeyFile": "server.pem", "--tlsCAFile": "ca.pem"}
        shown = [part for option, file in files.items() for part in (option, str(self.certificates / file))]
        return [*key, "--tlsMode", "requireTLS", *shown]

    def encryption(self) -> dict[str, Any]:
        """What a client needs to be answered at all."""
        if not self.certificates.exists():
            return {}
        files = {"tlsCAFile": "ca.pem", "tlsCertificateKeyFile": "client.pem"}
        return {"tls": True, **{option: str(self.certificates / file) for option, file in files.items()}}

    def client_options(self) -> dict[str, Any]:
        """What a client needs that may do everything."""
        if not self.password_file.exists():
            return self.encryption()
        return {"username": "root", "password": self.password_file.read_text(), **self.encryption()}


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def up(deployment: Deployment, options: argparse.Namespace) -> int:
    """Start everything that is not running; initiate and add the shards the first time."""
    known = list(deployment.members.values())
    if known:
        for program in ("configsvr", "mongod", "mongos"):
            deployment.start(*(member for member in known if member.program == program and not member.running))
        return status(deployment)
    files = Secrets(deployment.directory)
    files.make(auth=options.auth, tls=options.tls)
    given = files.server_arguments()
    sets = {
        f"shard{number}": replica_set(f"shard{number}", options.members, given)
        for number in range(1, options.shards + 1)
    }
    config = [Member(f"config-{number}", "configsvr", list(given)) for number in range(options.config)]
    deployment.start(*config, *(member for members in sets.values() for member in members))
    configdb = ",".join(member.address for member in config)
    routers = [
        Member(f"router-{number}", "mongos", ["--configdb", configdb, *given]) for number in range(options.routers)
    ]
    deployment.start(*routers)
    for set_name, members in sets.items():
        initiate(set_name, members, files.encryption())
    if options.auth:
        # Shards have users of their own, and let anybody on this machine make the first.
        for member in (routers[0], *(members[0] for members in sets.values())):
            with closing(pymongo.MongoClient(member.address, directConnection=True, **files.encryption())) as client:
                client.admin.command("createUser", "root", pwd=files.password_file.read_text(), roles=["root"])
    with closing(pymongo.MongoClient(routers[0].address, **files.client_options())) as client:
        for set_name, members in sets.items():
            hosts = ",".join(member.address for member in members)
            client.admin.command("addShard", f"{set_name}/{hosts}", name=set_name)
    return status(deployment)


def initiate(set_name: str, members: list[Member], encryption: dict[str, Any] | None = None) -> None:
    """Make a set of the members and wait for its primary."""
    rows = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
    with closing(pymongo.MongoClient(members[0].address, directConnection=True, **encryption or {})) as client:
        client.admin.command("replSetInitiate", {"_id": set_name, "members": rows, "settings": SET_SETTINGS})
        end = time.monotonic() + 30
        while not client.admin.command("hello")["isWritablePrimary"]:
            if time.monotonic() > end:
                raise StartFailed(f"{set_name} elects no primary")
            time.sleep(0.05)


def state_of(member: Member, encryption: dict[str, Any]) -> str:
    """One word on what the member says it is."""
    if not member.running:
        return "down"
    try:
        with closing(
            pymongo.MongoClient(member.address, directConnection=True, serverSelectionTimeoutMS=2000, **encryption)
        ) as client:
            hello = client.admin.command("hello")
    except PyMongoError as error:
        return f"no answer ({error})"
    if hello.get("msg") == "isdbgrid":
        return "router"
    return "primary" if hello["isWritablePrimary"] else "secondary" if hello.get("secondary") else "other"


def status(deployment: Deployment) -> int:
    if not deployment.members:
        print(f"nothing is deployed in {deployment.directory}")
        return 1
    files = Secrets(deployment.directory)
    encryption = files.encryption()
    for member in deployment.members.values():
        state = state_of(member, encryption)
        print(f"{member.name:12} {member.program:10} {member.address:16} pid {member.pid:<8} {state}")
    protected = files.password_file.exists()
    print(f"\n{address_of(deployment, 'root@' if protected else '')}")
    if protected:
        print(f"the password of root is in {files.password_file}")
    return 0


def address_of(deployment: Deployment, user: str) -> str:
    """The connection string by which clients reach all routers. `user`: what stands in front of them, with the "@"."""
    routers = [member.address for member in deployment.members.values() if member.program == "mongos"]
    encryption = Secrets(deployment.directory).encryption()
    query = urlencode({option: str(value).lower() if value is True else value for option, value in encryption.items()})
    return f"mongodb://{user}{','.join(routers)}/{query and '?'}{query}"


def down(deployment: Deployment, options: argparse.Namespace) -> int:
    deployment.stop()
    if options.wipe:
        shutil.rmtree(deployment.directory, ignore_errors=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("up", "status", "down"))
    parser.add_argument(
        "--dir", type=Path, default=Path("cluster-data"), help="data, logs and state (default %(default)s)"
    )
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--members", type=int, default=3, help="data nodes a shard")
    parser.add_argument("--config", type=int, default=3, help="config servers")
    parser.add_argument("--routers", type=int, default=2)
    parser.add_argument("--wipe", action="store_true", help="with down: delete the data too")
    parser.add_argument("--auth", action="store_true", help="a key file, and the user root")
    parser.add_argument("--tls", action="store_true", help="encrypted connections alone, by an authority of its own")
    options = parser.parse_args()
    deployment = Deployment.load(options.dir.resolve())
    if options.action == "up":
        try:
            return up(deployment, options)
        except (StartFailed, PyMongoError) as error:
            print(error, file=sys.stderr)
            deployment.stop()
            return 1
    return status(deployment) if options.action == "status" else down(deployment, options)


if __name__ == "__main__":
    sys.exit(main())
