"""The main job on a cluster of its own: two shards of three members count the tags of 200,000 posts.

Starts the processes, initiates the sets and adds the shards with the JavaScript shell, loads users and posts with a
stock driver through the routers while one primary is killed with -9, waits for the balancer to spread them, runs the
map-reduce as typed into the shell, and compares every count with a tally kept on this side. Exit status 0 only when
everything agreed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pymongo
from bson.objectid import ObjectId
from pymongo.errors import BulkWriteError, ConnectionFailure, PyMongoError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.deployment import Deployment, Member, replica_set, stopped_at_end

BATCH = 1000
PATIENCE_SECONDS = 40.0
SET_SETTINGS = "{ electionTimeoutMillis : 2000, heartbeatIntervalMillis : 500 }"
TAGS: list[str | None] = [*(f"tag{number}" for number in range(1, 42)), "tag43", None]
"""42 tags and, since the walk-through's picker can point past the end of its list, null."""

MAP_REDUCE = """\
map = function() {
if(!this.tags) {
return;
}
for ( index in this.tags) {
emit(this.tags[index],1);
}
}
reduce = function(key, values) {
var count = 0;
for(index in values) {
count += values[index];
}
return count;
}
result = db.runCommand( {
"mapreduce" : "posts",
"map" : map,
"reduce" : reduce,
"out" : "tags" } )
db.tags.find()
db.tags.count()
"""


class Wrong(Exception):
    """Something that must hold did not; the message says what."""


def say(text: str) -> None:
    print(f"\n=== {text}", flush=True)


def shell(address: str, script: str) -> None:
    """Type a script into the `mongo` shell, showing what goes in and what comes out."""
    print("\n".join(f"mongo {address}> {line}" for line in script.rstrip().splitlines()), flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "shell", "--quiet", address],
        input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
    )  # fmt: skip
    print(done.stdout, flush=True)
    if done.returncode:
        raise Wrong(f"the shell ended with status {done.returncode}")


def users(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"id": str(number), "name": f"user {number}", "email": f"user{number}@example.com"}


def posts(count: int, tally: Counter[str | None]) -> Iterator[dict[str, Any]]:
    rng = random.Random(2012)
    for number in range(count):
        tags = [rng.choice(TAGS) for _ in range(rng.randint(2, 5))]
        tally.update(tags)
        yield {"id": str(number), "content": f"data for content {number}", "tags": tags}


class Loader:
    """Inserts through the routers until everything is acknowledged, whatever dies meanwhile.

    A batch whose outcome is unknown is sent again with the same `_id`s: what was there already answers with a duplicate
    key, which then counts as acknowledged.
    """

    def __init__(self, collection: pymongo.collection.Collection[dict[str, Any]]) -> None:
        self.collection = collection
        self.acknowledged = 0
        self.resent = 0

    def insert(self, batch: list[dict[str, Any]]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        for document in batch:
            document["_id"] = ObjectId()
        again = False
        while True:
            try:
                self.collection.insert_many(batch, ordered=not again)
            except BulkWriteError as error:
                failed = [row for row in error.details["writeErrors"] if not (again and row["code"] == 11000)]
                if not failed and not error.details.get("writeConcernErrors"):
                    break
                if time.monotonic() > end:
                    raise
            except ConnectionFailure:
                if time.monotonic() > end:
                    raise
            except PyMongoError as error:
                if not error.has_error_label("RetryableWriteError") or time.monotonic() > end:
                    raise
            else:
                break
            again = True
            self.resent += 1
        self.acknowledged += len(batch)


def batches(documents: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    source = iter(documents)
    while batch := list(itertools.islice(source, size)):
        yield batch


def load(loader: Loader, documents: Iterable[dict[str, Any]], total: int, title: str, events: dict[int, Any]) -> None:
    """Load all documents; `events` maps a number of documents to what happens once so many are acknowledged."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    pending = sorted(events.items())
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=total)
        for batch in batches(documents, BATCH):
            loader.insert(batch)
            progress.update(task, completed=loader.acknowledged)
            while pending and loader.acknowledged >= pending[0][0]:
                progress.console.print(pending.pop(0)[1]())


def primary_of(deployment: Deployment, name: str) -> Member:
    """The member of a set that says it is primary."""
    for member in deployment.members.values():
        if member.name.startswith(f"{name}-") and member.running:
            with closing(pymongo.MongoClient(member.address, directConnection=True)) as client:
                if client.admin.command("hello")["isWritablePrimary"]:
                    return member
    raise Wrong(f"{name} has no primary")


def start(deployment: Deployment) -> list[Member]:
    """All processes; gives the two routers."""
    config = [Member(f"config-{number}", "configsvr", []) for number in range(3)]
    sets = [member for name in ("set_a", "set_b") for member in replica_set(name, 3, [])]
    deployment.start(*config, *sets)
    configdb = ",".join(member.address for member in config)
    routers = [Member(f"router-{number}", "mongos", ["--configdb", configdb]) for number in range(2)]
    deployment.start(*routers)
    return routers


def hosts(deployment: Deployment, name: str) -> list[str]:
    return [member.address for member in deployment.members.values() if member.name.startswith(f"{name}-")]


def initiate(deployment: Deployment, router: Member) -> None:
    """The sets and the shards, as typed into the shell."""
    for name in ("set_a", "set_b"):
        addresses = hosts(deployment, name)
        members = ", ".join(f'{{ _id : {number}, host : "{host}" }}' for number, host in enumerate(addresses))
        shell(
            addresses[0],
            f'rs.initiate({{ _id : "{name}", members : [ {members} ], settings : {SET_SETTINGS} }})\n'
            "while (!db.isMaster().ismaster) { sleep(50) }\nrs.isMaster().primary\n",
        )
    commands = [
        f'db.runCommand( {{ addshard : "{name}/{",".join(hosts(deployment, name))}", name : "shard{number}" }} )'
        for number, name in enumerate(("set_a", "set_b"), start=1)
    ]
    commands += ["db.runCommand( { listshards : 1 } )", 'db.runCommand( { enablesharding : "test" } )']
    commands += [
        f'db.runCommand( {{ shardcollection : "test.{name}" , key : {{ id : 1 }} }} )' for name in ("test", "posts")
    ]
    shell(router.address, "use admin\n" + "\n".join(commands) + "\n")


def check_users(client: pymongo.MongoClient[dict[str, Any]]) -> None:
    """The chunk table of 19,998 string ids, and where the documents are."""
    namespace = client.config.collections.find_one({"_id": "test.test"}) or {}
    rows = client.config.chunks.find({"uuid": namespace["uuid"]}).sort("min", 1)
    table = [(row["min"]["id"], row["lastmod"].time, row["lastmod"].inc, row["shard"]) for row in rows]
    versions = [(major, minor) for _, major, minor, _ in table]
    if versions != [(2, 1), (1, 3), (2, 0)] or [row[0] for row in table][1:] != ["1", "999"]:
        raise Wrong(f"the chunks of test.test are {table}")
    top = client.test.test.count_documents({"id": {"$gte": "999"}})
    total = client.test.test.count_documents({})
    print(f"{total} users, {top} of them at or above '999', chunk versions 2|1, 1|3, 2|0")
    if (total, top) != (19_998, 11):
        raise Wrong(f"{total} users, {top} at or above '999'")


def check_posts(client: pymongo.MongoClient[dict[str, Any]], count: int) -> None:
    """Every acknowledged post is there exactly once."""
    seen = Counter(row["id"] for row in client.test.posts.find({}, {"id": 1, "_id": 0}, batch_size=20_000))
    if len(seen) != count or seen.total() != count:
        lost = [str(number) for number in range(count) if str(number) not in seen]
        raise Wrong(f"{len(lost)} posts lost (first {lost[:5]}), {seen.total() - len(seen)} found twice")
    print(f"every one of {count} acknowledged posts is there exactly once")


def check_tags(client: pymongo.MongoClient[dict[str, Any]], tally: Counter[str | None]) -> None:
    """The map-reduce's output equals the tally of this side."""
    counted = {row["_id"]: row["value"] for row in client.test.tags.find()}
    if counted != dict(tally):
        raise Wrong(f"the counts differ: {[(tag, tally[tag], counted.get(tag)) for tag in tally]}")
    reply = client.test.command(
        "mapreduce", "posts", map="function () { for (var i in this.tags) { emit(this.tags[i], 1) } }",
        reduce="function (key, values) { return Array.sum(values) }", out={"inline": 1},
    )  # fmt: skip
    if reply["counts"]["emit"] != tally.total() or sum(row["value"] for row in reply["results"]) != tally.total():
        raise Wrong(f"counts.emit is {reply['counts']['emit']}, the tally {tally.total()}")
    print(f"{len(tally)} tags agree with the tally; counts.emit {tally.total()} is their sum; {reply['timeMillis']} ms")


def wait_spread(client: pymongo.MongoClient[dict[str, Any]], count: int) -> None:
    """Wait until the balancer has left no shard with more than two thirds of the posts, and what moved is gone where
    it was.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        shards = client.test.command("collStats", "posts")["shards"]
        held = {name: shards[name]["count"] for name in sorted(shards)}
        if sum(held.values()) == count and max(held.values()) * 3 <= count * 2:
            print("posts by shard, as the balancer has spread them:", held)
            return
        if time.monotonic() > end:
            raise Wrong(f"the balancer has not spread the posts: {held}")
        time.sleep(0.2)


def run(deployment: Deployment, count: int) -> None:
    say("two sets of three data nodes, three config servers, two routers")
    routers = start(deployment)
    for member in deployment.members.values():
        print(f"  {member.name:10} {member.program:10} {member.address} pid {member.pid}")
    say("sets, shards, sharded collections")
    initiate(deployment, routers[0])
    uri = "mongodb://" + ",".join(router.address for router in routers) + "/test"
    with closing(pymongo.MongoClient(uri)) as client:
        say("19,998 users")
        load(Loader(client.test.test), users(19_998), 19_998, "users", {})
        check_users(client)
        say(f"{count} posts; the primary of set_a is killed on the way")
        tally: Counter[str | None] = Counter()
        killed: list[str] = []

        def kill() -> str:
            victim = primary_of(deployment, "set_a")
            deployment.kill(victim.name)
            killed.append(victim.name)
            return f"kill -9 {victim.name} (pid {victim.pid})"

        def revive() -> str:
            deployment.restart(killed[0])
            return f"{killed[0]} is back"

        loader = Loader(client.test.posts)
        load(loader, posts(count, tally), count, "posts", {count * 2 // 5: kill, count * 7 // 10: revive})
        print(f"{loader.acknowledged} posts acknowledged at w:majority, {loader.resent} batches sent again")
        check_posts(client, count)
        say("chunks")
        wait_spread(client, count)
        shell(routers[0].address, "db.printShardingStatus()\ndb.posts.getShardDistribution()\n")
        check_posts(client, count)
        say("map-reduce")
        shell(routers[1].address, MAP_REDUCE)
        check_tags(client, tally)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posts", type=int, default=200_000)
    parser.add_argument("--keep", action="store_true", help="keep the data and the logs")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="docstore-demo-"))
    began = time.monotonic()
    try:
        with stopped_at_end(Deployment(directory)) as deployment:
            run(deployment, options.posts)
    except Wrong as wrong:
        print(f"\nFAILED: {wrong}\nlogs: {directory}", file=sys.stderr)
        return 1
    print(f"\nall checks passed in {time.monotonic() - began:.0f} s; everything is stopped")
    if options.keep:
        print(f"data and logs: {directory}")
    else:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
