"""Whether an installed Docstore does its main job: its kernel is compiled, and a cluster counts tags in a script.

Run by scripts/wheel, where there is neither this checkout nor a compiler.
"""

from __future__ import annotations

import shutil
import subprocess

import docstore.kernel.match.predicate as kernel
from docstore.testing import Cluster

MAP = "function () { this.tags.forEach(tag => emit(tag, 1)) }"
REDUCE = "function (key, values) { return Array.sum(values) }"
PROGRAMS = ("mongod", "mongos", "configsvr", "mongo", "mongodump", "mongorestore", "docstore")


def main() -> None:
    assert shutil.which("cc") is None
    assert kernel.__file__.endswith(".so"), "the kernel is not compiled"
    for program in PROGRAMS:
        subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, check=True)
    with Cluster(shards=2) as cluster:
        client = cluster.client()
        client.admin.command("shardCollection", "blog.posts", key={"_id": 1})
        client.blog.posts.insert_many([{"_id": n, "tags": ["all", f"by{n % 3}"]} for n in range(300)])
        client.admin.command("split", "blog.posts", middle={"_id": 150})
        client.admin.command("moveChunk", "blog.posts", find={"_id": 150}, to="shard1")
        counted = client.blog.command("mapReduce", "posts", map=MAP, reduce=REDUCE, out={"inline": 1})
        found = {row["_id"]: row["value"] for row in counted["results"]}
        assert found == {"all": 300, "by0": 100, "by1": 100, "by2": 100}, found
        said = subprocess.run(
            ["mongo", cluster.uri, "--quiet", "--eval", "print(db.getSiblingDB('blog').posts.countDocuments({}))"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert said.stdout.split() == ["300"], said.stdout
    print("installed, started, sharded, counted")


if __name__ == "__main__":
    main()
