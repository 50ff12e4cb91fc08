"""The shell in front of a set and of a sharded cluster: what the walk-through types, and what must come back."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.deployment import Member, replica_set, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

TAG_COUNT = """
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
"map" : map, //name of map function
"reduce" : reduce, //name of reduce function
"out" : "tags" } )
"""


def shell(address: str, script: str) -> str:
    """What a shell prints for a script on its standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "shell", "--quiet", address], input=script, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def initiate(member: Member) -> None:
    assert '"ok" : 1' in shell(member.address, "rs.initiate()\n")
    wait_until(lambda: shell(member.address, "db.isMaster().ismaster\n") == "true\n", 20)


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A router over two shards of one member each, with the shards added by the shell."""
    deployment = ForkedDeployment(tmp_path_factory.mktemp("walkthrough"))
    with stopped_at_end(deployment):
        [first], [second] = replica_set("set_a", 1, []), replica_set("set_b", 1, [])
        config = Member("config", "configsvr", [])
        deployment.start(first, second, config)
        initiate(first)
        initiate(second)
        mongos = Member("mongos", "mongos", ["--configdb", config.address])
        deployment.start(mongos)
        assert shell(
            mongos.address,
            "use admin\n"
            f'db.runCommand( {{ addshard : "set_a/{first.address}", name : "shard1" }} )\n'
            f'db.runCommand( {{ addshard : "set_b/{second.address}", name : "shard2" }} )\n'
            'db.runCommand( { enablesharding : "test" } )\n'
            "sh.stopBalancer().ok\n",
        ) == (
            "switched to db admin\n"
            '{ "shardAdded" : "shard1", "ok" : 1 }\n'
            '{ "shardAdded" : "shard2", "ok" : 1 }\n'
            '{ "ok" : 1 }\n'
            "1\n"
        )
        yield mongos.address


def test_a_set_grows_by_the_shell_alone(tmp_path: Path) -> None:
    deployment = ForkedDeployment(tmp_path)
    with stopped_at_end(deployment):
        first, second = replica_set("set_a", 2, [])
        deployment.start(first, second)
        before = shell(first.address, "rs.status()\n")
        assert '"startupStatus" : 3' in before
        assert "EMPTYCONFIG" in before
        initiate(first)
        assert shell(first.address, f'rs.add("{second.address}")\n') == '{ "ok" : 1 }\n'
        states = "rs.status().members.map(function(m) { return m.stateStr }).join()\n"
        wait_until(lambda: shell(first.address, states) == "PRIMARY,SECONDARY\n", 30)
        assert shell(first.address, "rs.conf().version >= 2\nrs.isMaster().hosts.length\n") == "true\n2\n"
        written = shell(first.address, "db.c.insert({_id: 1}, {writeConcern: {w: 2}})\n")
        assert written == 'WriteResult({ "nInserted" : 1 })\n'
        read = shell(second.address, "db.c.find()\nrs.slaveOk()\ndb.c.find()\n")
        assert "NotPrimaryNoSecondaryOk" in read
        assert read.endswith('{ "_id" : 1 }\n')
        both = f"{second.address},{first.address}/test"
        assert shell(both, "db.c.insert({_id: 2})\n") == 'WriteResult({ "nInserted" : 1 })\n'


def test_chunks_split_and_move_with_the_versions_of_the_walkthrough(router: str) -> None:
    printed = shell(
        router,
        'db.adminCommand( { shardcollection : "test.test", key : { id : 1 } } ).collectionsharded\n'
        'sh.splitAt("test.test", {id: "1"}).ok\n'
        'sh.splitAt("test.test", {id: "999"}).ok\n'
        'sh.moveChunk("test.test", {id: "999"}, "shard2").ok\n'
        "db.printShardingStatus()\n"
        'for (var i = 0, batch = []; i < 1200; i++) batch.push({id: "" + i})\n'
        "db.test.insert(batch).nInserted\n"
        'db.test.find({id: {$gte: "999"}}).count()\n',
    )
    assert printed.startswith("test.test\n1\n1\n1\n--- Sharding Status ---\n")
    table = printed[printed.index("\t\ttest.test chunks:") :]
    assert table == (
        "\t\ttest.test chunks:\n\t\t\t\tshard1\t2\n\t\t\t\tshard2\t1\n"
        '\t\t\t{ "id" : { $minKey : 1 } } -->> { "id" : "1" } on : shard1 { "t" : 2000, "i" : 1 }\n'
        '\t\t\t{ "id" : "1" } -->> { "id" : "999" } on : shard1 { "t" : 1000, "i" : 3 }\n'
        '\t\t\t{ "id" : "999" } -->> { "id" : { $maxKey : 1 } } on : shard2 { "t" : 2000, "i" : 0 }\n'
        "1200\n1200\n1\n"
    )


def test_tags_are_counted_across_the_shards(router: str) -> None:
    printed = shell(
        router,
        "db.posts.ensureIndex({id: 1}).ok\n"
        'db.adminCommand( { shardcollection : "test.posts", key : { id : 1 } } ).collectionsharded\n'
        'sh.splitAt("test.posts", {id: "5"}).ok\n'
        'sh.moveChunk("test.posts", {id: "5"}, "shard2").ok\n'
        "var batch = [], tally = {}, total = 0\n"
        "for (var i = 0; i < 1000; i++) { var tags = []; for (var t = 0; t <= i % 4; t++) { "
        'var tag = "tag" + (i * t) % 7; tags.push(tag); tally[tag] = (tally[tag] || 0) + 1; total++ } '
        'batch.push({id: "" + i, content: "data for content " + i, tags: tags}) }; db.posts.insert(batch).nInserted\n'
        + TAG_COUNT
        + "db.tags.find().toArray().every(function(d) { return d.value == tally[d._id] })\n"
        "Number(result.counts.emit) == total && Number(result.counts.input) == 1000\n"
        "Object.keys(result.shardCounts).length\n"
        "db.tags.count() == Object.keys(tally).length\n"
        "db.printCollectionStats()\n",
    )
    assert printed.startswith("1\ntest.posts\n1\n1\n1000\nfunction() {\nif(!this.tags) {\n")
    assert '"result" : "tags"' in printed
    assert "\ntrue\ntrue\n2\ntrue\n---\nposts\n{\n" in printed
    assert re.search(r'"sharded" : true,\n(?:.*\n)*?\t"count" : 1000,', printed)


def test_a_router_that_is_gone_is_replaced_by_another_in_the_address(router: str) -> None:
    assert shell(f"127.0.0.1:1,{router}/test", "db.isMaster().msg\n") == "isdbgrid\n"
