"""A cluster to try things on: `cluster up` starts it, `cluster status` shows it, `cluster down` stops it."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

import pymongo
from pymongo.errors import PyMongoError

from scripts.deployment import Deployment, Member, StartFailed, replica_set

SET_SETTINGS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500}


def up(deployment: Deployment, options: argparse.Namespace) -> int:
    """Start everything that is not running; initiate and add the shards the first time."""
    known = list(deployment.members.values())
    if known:
        for program in ("configsvr", "mongod", "mongos"):
            deployment.start(*(member for member in known if member.program == program and not member.running))
        return status(deployment)
    sets = {
        f"shard{number}": replica_set(f"shard{number}", options.members, []) for number in range(1, options.shards + 1)
    }
    config = [Member(f"config-{number}", "configsvr", []) for number in range(options.config)]
    deployment.start(*config, *(member for members in sets.values() for member in members))
    configdb = ",".join(member.address for member in config)
    routers = [Member(f"router-{number}", "mongos", ["--configdb", configdb]) for number in range(options.routers)]
    deployment.start(*routers)
    for name, members in sets.items():
        initiate(name, members)
    with closing(pymongo.MongoClient(routers[0].address)) as client:
        for name, members in sets.items():
            hosts = ",".join(member.address for member in members)
            client.admin.command("addShard", f"{name}/{hosts}", name=name)
    return status(deployment)


def initiate(name: str, members: list[Member]) -> None:
    """Make a set of the members and wait for its primary."""
    rows = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
    with closing(pymongo.MongoClient(members[0].address, directConnection=True)) as client:
        client.admin.command("replSetInitiate", {"_id": name, "members": rows, "settings": SET_SETTINGS})
        end = time.monotonic() + 30
        while not client.admin.command("hello")["isWritablePrimary"]:
            if time.monotonic() > end:
                raise StartFailed(f"{name} elects no primary")
            time.sleep(0.05)


def state_of(member: Member) -> str:
    """One word on what the member says it is."""
    if not member.running:
        return "down"
    try:
        with closing(
            pymongo.MongoClient(member.address, directConnection=True, serverSelectionTimeoutMS=2000)
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
    for member in deployment.members.values():
        print(f"{member.name:12} {member.program:10} {member.address:16} pid {member.pid:<8} {state_of(member)}")
    routers = [member.address for member in deployment.members.values() if member.program == "mongos"]
    print(f"\nmongodb://{','.join(routers)}/")
    return 0


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
