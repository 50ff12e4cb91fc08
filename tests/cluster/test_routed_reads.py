"""What queries, pipelines and scripts mean through a router over two shards, driven by the stock driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from tests.cluster.routed import Cluster, routed_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("reads")) as cluster:
        yield cluster


def test_reads_across_shards_equal_those_of_one_list(cluster):
    things = cluster.shard("things", {"k": 1})
    cluster.split_and_move("things", {"k": 500})
    rows = [{"_id": n, "k": (n * 37) % 1000, "group": n % 7, "tags": [n % 3, n % 5]} for n in range(1000)]
    things.insert_many(rows, ordered=False)
    by_k = sorted(rows, key=lambda row: row["k"])
    assert list(things.find().sort("k", 1)) == by_k
    assert list(things.find().sort("k", -1).skip(400).limit(250)) == by_k[::-1][400:650]
    assert [
        row["_id"] for row in things.find({"k": {"$gte": 490, "$lt": 510}}, {"_id": 1}).sort([("group", 1), ("k", 1)])
    ] == [row["_id"] for row in sorted(by_k[490:510], key=lambda row: (row["group"], row["k"]))]
    assert sorted(row["_id"] for row in things.find(batch_size=7)) == list(range(1000))
    assert things.count_documents({"group": 3}) == sum(row["group"] == 3 for row in rows)
    assert things.count_documents({}, skip=10, limit=700) == 700
    assert sorted(things.distinct("tags")) == [0, 1, 2, 3, 4]
    grouped = things.aggregate(
        [{"$group": {"_id": "$group", "n": {"$sum": 1}, "mean": {"$avg": "$k"}}}, {"$sort": {"_id": 1}}]
    )
    expected = [
        {"_id": group, "n": len(ks), "mean": sum(ks) / len(ks)}
        for group, ks in ((g, [row["k"] for row in rows if row["group"] == g]) for g in range(7))
    ]
    assert list(grouped) == expected


def test_a_shard_key_may_end_in_the_identity(cluster):
    posts = cluster.shard("by_user", {"user": 1, "_id": 1})
    rows = [{"_id": number, "user": number % 4} for number in range(40)]
    posts.insert_many(rows)
    cluster.split_and_move("by_user", {"user": 2, "_id": 10})
    chunks = cluster.chunks("by_user")
    assert {chunk["shard"] for chunk in chunks} == {"one", "two"}
    assert all(list(chunk[end]) == ["user", "_id"] for chunk in chunks for end in ("min", "max"))
    assert list(posts.find().sort("_id", 1)) == rows
    assert [row["_id"] for row in posts.find({"user": 2}).sort("_id", 1)] == list(range(2, 40, 4))
    assert posts.update_one({"user": 2, "_id": 38}, {"$set": {"seen": True}}).modified_count == 1
    assert posts.find_one({"_id": 38}) == {"_id": 38, "user": 2, "seen": True}
    assert posts.delete_many({"user": 3}).deleted_count == 10
    assert posts.count_documents({}) == 30


def test_explain_shows_how_a_pipeline_is_split(cluster):
    items = cluster.shard("split", {"n": 1})
    items.insert_many([{"n": number, "x": number % 5} for number in range(100)])
    cluster.split_and_move("split", {"n": 50})

    def explained(pipeline):
        command = {"explain": {"aggregate": "split", "pipeline": pipeline, "cursor": {}}}
        return items.database.command({**command, "verbosity": "executionStats"})

    parts = explained([{"$set": {"y": 1}}, {"$match": {"x": 3}}, {"$group": {"_id": "$x", "s": {"$sum": "$n"}}}])
    assert parts["mergeType"] == "mongos"
    assert [next(iter(stage)) for stage in parts["splitPipeline"]["shardsPart"]] == ["$match", "$set", "$group"]
    assert [next(iter(stage)) for stage in parts["splitPipeline"]["mergerPart"]] == ["$group"]
    assert [shard["stages"][0]["nReturned"] for shard in parts["shards"].values()] == [10, 10]

    alone = explained([{"$match": {"n": 3}}])
    assert alone["splitPipeline"] is None
    assert [shard["executionStats"]["nReturned"] for shard in alone["shards"].values()] == [1]


def test_explain_shows_the_plan_of_every_shard_that_is_asked(cluster):
    items = cluster.shard("explained", {"n": 1})
    items.insert_many([{"n": n, "x": n % 5} for n in range(100)])
    cluster.split_and_move("explained", {"n": 50})
    items.create_index("x")

    def winning(find: dict[str, Any]) -> dict[str, Any]:
        explained = items.database.command({"explain": {"find": "explained", **find}, "verbosity": "executionStats"})
        assert explained["executionStats"]["nReturned"] == (20 if "x" in find["filter"] else 1)
        return explained["queryPlanner"]["winningPlan"]

    assert winning({"filter": {"n": 7}})["stage"] == "SINGLE_SHARD"
    merged = winning({"filter": {"x": 3}})
    assert merged["stage"] == "SHARD_MERGE"
    hosts = {shard["_id"]: shard["host"] for shard in cluster.client.config.shards.find()}
    assert {shard["shardName"]: shard["connectionString"] for shard in merged["shards"]} == hosts
    assert winning({"filter": {"x": 3}, "sort": {"n": 1}})["stage"] == "SHARD_MERGE_SORT"
    deletion = {"delete": "explained", "deletes": [{"q": {"x": 3}, "limit": 0}]}
    explained = items.database.command({"explain": deletion, "verbosity": "executionStats"})
    assert explained["queryPlanner"]["winningPlan"]["stage"] == "SHARD_WRITE"
    assert explained["executionStats"]["totalDocsExamined"] == 20
    assert items.count_documents({}) == 100


def test_statistics_of_every_shard_name_shard_and_member(cluster):
    items = cluster.shard("measured", {"n": 1})
    items.insert_many([{"n": n} for n in range(10)])
    cluster.split_and_move("measured", {"n": 5})
    hosts = {shard["_id"]: shard["host"] for shard in cluster.client.config.shards.find()}

    def named(stage: dict[str, Any]) -> list[dict[str, Any]]:
        reported = list(items.aggregate([stage]))
        assert {row["shard"]: f"{row['shard']}/{row['host']}" for row in reported} == hosts
        return reported

    for row in named({"$collStats": {"count": {}}}):
        assert list(row) == ["ns", "shard", "host", "localTime", "count"]
    assert {(row["shard"], row["name"]) for row in named({"$indexStats": {}})} == {
        (shard, name) for shard in hosts for name in ("_id_", "n_1")
    }
    assert list(named({"$indexStats": {}})[0]) == ["name", "key", "host", "accesses", "shard", "spec"]


def test_a_merge_by_other_fields_than_those_of_the_shard_key_writes_nothing(cluster):
    items = cluster.shard("merged", {"n": 1})
    source = items.database.merge_source
    source.insert_many([{"_id": number, "n": number} for number in range(3)])
    for fields in ("_id", ["_id", "n"], "n"):
        with pytest.raises(OperationFailure) as refused:
            source.aggregate([{"$merge": {"into": "merged", "on": fields}}])
        assert refused.value.code == 51190
    assert items.count_documents({}) == 0
    items.create_index([("n", 1), ("x", 1)], unique=True)
    source.update_many({}, {"$set": {"x": 1}})
    source.aggregate([{"$merge": {"into": "merged", "on": ["x", "n"]}}])
    assert items.count_documents({}) == 3


def test_a_map_reduce_runs_on_every_shard_and_null_is_a_key(cluster):
    posts = cluster.shard("posts", {"id": 1})
    cluster.split_and_move("posts", {"id": "5"})
    rows = [{"id": str(n), "tags": [f"tag{n % 5}", None if n % 3 == 0 else "x"]} for n in range(1000)]
    posts.insert_many(rows)
    tally = Counter(tag for row in rows for tag in row["tags"])
    functions = {
        "map": "function () { for (var i in this.tags) { emit(this.tags[i], 1) } }",
        "reduce": "function (key, values) { return Array.sum(values) }",
    }
    reply = cluster.client.test.command("mapreduce", "posts", **functions, out="tags")
    assert {row["_id"]: row["value"] for row in cluster.client.test.tags.find()} == tally
    assert reply["result"] == "tags"
    assert reply["counts"]["emit"] == tally.total() == sum(part["emit"] for part in reply["shardCounts"].values())
    assert len(reply["shardCounts"]) == 2
    inline = cluster.client.test.command(
        "mapReduce", "posts", **functions, finalize="function (key, value) { return -value }", out={"inline": 1}
    )
    assert {row["_id"]: -row["value"] for row in inline["results"]} == tally
    for mode, times in (("merge", 1), ("reduce", 2)):
        cluster.client.test.tags.insert_one({"_id": mode, "value": 7})
        cluster.client.test.command("mapReduce", "posts", **functions, out={mode: "tags"})
        found = {row["_id"]: row["value"] for row in cluster.client.test.tags.find({"value": {"$ne": 7}})}
        assert found == {tag: times * count for tag, count in tally.items()}
        assert cluster.client.test.tags.find_one({"_id": mode}) == {"_id": mode, "value": 7}
    with pytest.raises(OperationFailure) as raised:
        cluster.client.test.command("mapReduce", "posts", **(functions | {"map": "function () { oops() }"}), out="tags")
    assert raised.value.code == 139
    assert not [name for name in cluster.client.test.list_collection_names() if name.startswith("tmp.mr")]


def test_views_over_sharded_collections_are_read_through_the_router(cluster: Cluster) -> None:
    viewed = cluster.shard("viewed", {"id": 1})
    viewed.insert_many([{"_id": n, "id": n, "a": n % 3, "b": [n, n + 1]} for n in range(30)])
    cluster.split_and_move("viewed", {"id": 15})
    test = cluster.client.test
    test.command("create", "view", viewOn="viewed", pipeline=[{"$match": {"a": {"$gt": 0}}}])
    test.command("create", "higher", viewOn="view", pipeline=[{"$match": {"id": {"$gte": 10}}}])
    found = list(test.higher.find({"a": 1}, {"a": 1}).sort("_id", -1).skip(1).limit(3).batch_size(2))
    assert found == [{"_id": 25, "a": 1}, {"_id": 22, "a": 1}, {"_id": 19, "a": 1}]
    assert test.higher.count_documents({}) == 14
    assert test.command("count", "view")["n"] == 20
    assert test.higher.distinct("b", {"id": {"$lt": 12}}) == [10, 11, 12]
    assert list(test.higher.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])) == [
        {"_id": 1, "n": 7}, {"_id": 2, "n": 7},
    ]  # fmt: skip
    assert test.command("find", "view", limit=1)["cursor"]["ns"] == "test.view"
    assert test.higher.find_one({"a": 1}, {"a": 1}, sort=[("_id", -1)]) == {"_id": 28, "a": 1}
    single = test.command("find", "higher", limit=1, singleBatch=True, batchSize=1)["cursor"]
    assert (len(single["firstBatch"]), single["id"]) == (1, 0)
    with pytest.raises(OperationFailure) as caught:
        test.view.insert_one({"_id": 1})
    assert caught.value.code == 166
    test.command("collMod", "view", viewOn="viewed", pipeline=[{"$match": {"a": 0}}])
    assert test.view.count_documents({}) == 10
    test.drop_collection("view")
    assert test.view.find_one() is None


def test_the_languages_of_queries_and_updates_mean_the_same_through_a_router(cluster: Cluster) -> None:
    collection = cluster.shard("languages", {"k": 1})
    collection.insert_many({"_id": n, "k": n, "v": [n, n + 1]} for n in range(10))
    cluster.split_and_move("languages", {"k": 5})
    db = cluster.client.test
    found = db.command(
        "find", "languages", filter={"$expr": {"$gte": ["$k", "$$x"]}}, let={"x": 4}, sort={"k": -1},
        projection={"_id": 0, "k": 1, "y": {"$add": ["$k", "$$x"]}},
    )  # fmt: skip
    assert found["cursor"]["firstBatch"] == [{"k": k, "y": k + 4} for k in range(9, 3, -1)]
    assert collection.find_one({"v": 6}, {"_id": 0, "v.$": 1}, sort=[("k", -1)]) == {"v": [6]}
    statement = {"q": {"$expr": {"$lt": ["$k", "$$x"]}}, "u": [{"$set": {"w": "$$x"}}], "multi": True}
    assert db.command("update", "languages", updates=[statement], let={"x": 7})["nModified"] == 7
    assert collection.count_documents({"w": 7, "k": {"$bitsAllClear": 1}}) == 4
    collection.update_many({}, {"$inc": {"v.$[e]": 100}}, array_filters=[{"e": {"$gte": 9}}])
    assert collection.count_documents({"$jsonSchema": {"properties": {"v": {"items": {"maximum": 99}}}}}) == 8
    removed = db.command(
        "delete", "languages", deletes=[{"q": {"$expr": {"$eq": ["$k", "$$x"]}}, "limit": 0}], let={"x": 8}
    )
    assert removed["n"] == 1
    changed = db.command(
        "findAndModify", "languages", query={"k": 9}, update=[{"$set": {"z": "$$x"}}], let={"x": 3}, new=True
    )
    assert changed["value"]["z"] == 3


def test_a_collation_means_the_same_through_a_router(cluster: Cluster) -> None:
    """Shards are chosen by bytes and never by an equality under a collation; what is merged compares by it."""
    collection = cluster.shard("collated", {"s": 1})
    texts = ["a", "A", "b", "B", "m", "M", "z", "Z"]
    collection.insert_many([{"_id": number, "s": text, "g": number % 3} for number, text in enumerate(texts)])
    cluster.split_and_move("collated", {"s": "a"})
    rules = {"locale": "en", "strength": 2}
    options: dict[str, Any] = {"collation": rules}
    assert collection.count_documents({"s": "a"}, **options) == 2
    found = collection.find({"s": {"$gte": "B"}}, **options).sort([("s", 1), ("_id", 1)])
    assert [each["s"] for each in found] == ["b", "B", "m", "M", "z", "Z"]
    assert [text.lower() for text in collection.distinct("s", **options)] == ["a", "b", "m", "z"]
    grouped = collection.aggregate([{"$group": {"_id": "$s", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], **options)
    assert [(each["_id"].lower(), each["n"]) for each in grouped] == [("a", 2), ("b", 2), ("m", 2), ("z", 2)]
    cluster.client.test["collated_others"].insert_one({"_id": "M"})
    joined = {"from": "collated_others", "localField": "s", "foreignField": "_id", "as": "j"}
    pipeline = [{"$lookup": joined}, {"$match": {"j": {"$ne": []}}}, {"$sort": {"_id": 1}}]
    assert [each["s"] for each in collection.aggregate(pipeline, **options)] == ["m", "M"]
    assert [each["s"] for each in collection.aggregate(pipeline)] == ["M"]
    assert collection.update_many({"s": "z"}, {"$set": {"seen": 1}}, **options).modified_count == 2
    with pytest.raises(OperationFailure) as refused:
        collection.update_one({"s": "z"}, {"$set": {"seen": 2}}, **options)
    assert refused.value.code == 72
    assert collection.delete_many({"s": {"$in": ["Z"]}}, **options).deleted_count == 2
    cluster.client.test.command("create", "collated_view", viewOn="collated", collation=rules)
    view = cluster.client.test["collated_view"]
    assert view.count_documents({"s": "m"}) == 2
    assert [each["_id"] for each in view.find({"s": "B"}).sort("_id", 1)] == [2, 3]
    with pytest.raises(OperationFailure) as refused:
        view.count_documents({}, collation={"locale": "fr"})
    assert refused.value.code == 167
    cluster.client.test.command("create", "collated_own", collation=rules)
    assert [cluster.client.test["collated_own"].insert_one({"_id": "x"}).inserted_id] == ["x"]
    assert cluster.client.test["collated_own"].count_documents({"_id": "X"}) == 1
    for arguments in ({"collation": rules}, {}):
        with pytest.raises(OperationFailure) as refused:
            cluster.client.admin.command("shardCollection", "test.collated_own", key={"_id": 1}, **arguments)
        assert refused.value.code == 2


def test_what_is_near_comes_in_order_from_all_shards(cluster: Cluster) -> None:
    places = cluster.shard("places", {"k": 1})
    cluster.split_and_move("places", {"k": 50})
    places.insert_many([{"_id": n, "k": n, "g": [n * 37 % 101 / 10, n * 53 % 97 / 10]} for n in range(100)])
    places.create_index([("g", "2dsphere")])
    places.create_index([("g", "2d")])
    rows = list(places.find())

    def distance(row: dict[str, Any]) -> float:
        return (row["g"][0] - 5.01) ** 2 + (row["g"][1] - 4.52) ** 2

    ordered = [row["_id"] for row in sorted(rows, key=distance)]
    flat = {"g": {"$near": [5.01, 4.52]}}
    assert [row["_id"] for row in places.find(flat, {"_id": 1})] == ordered
    assert [row["_id"] for row in places.find(flat, {"_id": 1}).skip(3).limit(7)] == ordered[3:10]
    assert [row["_id"] for row in places.find({**flat, "k": {"$lt": 10}}, {"_id": 1})] == [n for n in ordered if n < 10]
    distances = [row["d"] for row in places.find({"g": {"$nearSphere": [5, 4]}}, {"d": {"$meta": "geoNearDistance"}})]
    assert distances == sorted(distances)
    assert len(distances) == 100
    near = {"near": [5.01, 4.52], "distanceField": "d", "key": "g"}
    assert [row["_id"] for row in places.aggregate([{"$geoNear": near}, {"$project": {"_id": 1}}])] == ordered
    stages = [{"$geoNear": {**near, "query": {"k": {"$gte": 20}}}}, {"$skip": 2}, {"$limit": 5}]
    assert [row["_id"] for row in places.aggregate(stages)] == [n for n in ordered if n >= 20][2:7]
    assert [row["d"] ** 2 for row in places.aggregate(stages[:1])] == pytest.approx(
        sorted(distance(row) for row in rows if row["k"] >= 20)
    )
    with pytest.raises(OperationFailure) as refused:
        places.find_one({"h": {"$near": [1, 1]}})
    assert refused.value.code == 291


def test_words_are_searched_for_on_all_shards(cluster: Cluster) -> None:
    texts = cluster.shard("texts", {"k": 1})
    cluster.split_and_move("texts", {"k": 5})
    texts.create_index([("t", "text")])
    texts.insert_many([{"_id": n, "k": n, "t": "quick fox" if n % 2 else "lazy dogs"} for n in range(10)])
    search = {"$text": {"$search": "fox"}}
    assert [row["_id"] for row in texts.find(search).sort("_id", 1)] == [1, 3, 5, 7, 9]
    assert {row["s"] for row in texts.find(search, {"s": {"$meta": "textScore"}})} == {0.75}
    assert texts.count_documents({"$text": {"$search": "dog"}, "k": {"$gt": 5}}) == 2
    stages = [{"$match": search}, {"$group": {"_id": {"$meta": "textScore"}, "n": {"$sum": 1}}}]
    assert list(texts.aggregate(stages)) == [{"_id": 0.75, "n": 5}]


def test_scores_of_documents_of_all_shards_are_merged_as_those_of_one(cluster: Cluster) -> None:
    score = {"$meta": "textScore"}
    words = ["fox", "quick fox", "fox and fox", "lazy dogs of a fox", "dogs"]
    rows = [{"_id": n, "k": n % 10, "t": words[n % 5], "u": {"t": words[n // 5 % 5]}} for n in range(40)]
    sharded, alone = cluster.shard("scored", {"k": 1}), cluster.client.test.scored_alone
    cluster.split_and_move("scored", {"k": 5})
    for each in (sharded, alone):
        each.create_index([("t", "text"), ("u.t", "text")], weights={"u.t": 3}, name="texts")
        each.insert_many(rows)
    search = {"$text": {"$search": "quick fox -dogs"}}
    finds: list[tuple[Any, list[tuple[str, Any]], int, int]] = [
        ({"s": score}, [("s", score), ("_id", 1)], 0, 0),
        ({"s": score, "k": 1}, [("k", -1), ("any", score), ("_id", -1)], 3, 10),
        ({"t": 1}, [("s", score), ("_id", -1)], 2, 5),
        (None, [("s", score), ("_id", 1)], 0, 3),
    ]
    for projection, order, skip, limit in finds:
        found, expected = (
            list(each.find(search, projection, sort=order, skip=skip, limit=limit, batch_size=4))
            for each in (sharded, alone)
        )
        assert len(found) == (limit or 18)
        assert found == expected
    by_score = {"$sort": {"s": score, "_id": 1}}
    for stages in (
        [by_score, {"$project": {"s": score}}],
        [by_score, {"$limit": 7}, {"$addFields": {"s": score, "u": 0}}, {"$match": {"s": {"$gt": 1}}}],
        [{"$project": {"s": score, "k": 1}}, {"$sort": {"s": -1, "_id": 1}}, {"$limit": 5}],
        [by_score, {"$group": {"_id": score, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
        [{"$limit": 100}, {"$sort": {"s": score, "_id": 1}}, {"$skip": 3}],
    ):
        pipeline = [{"$match": search}, *stages]
        assert list(sharded.aggregate(pipeline)) == list(alone.aggregate(pipeline))
    sharded.drop_index("texts")
    with pytest.raises(OperationFailure) as refused:
        list(sharded.find(search).sort([("s", score)]))
    assert refused.value.code == 27


def test_scripts_run_on_the_shards_and_where_their_results_are_merged(cluster: Cluster) -> None:
    posts = cluster.shard("scripted", {"n": 1})
    cluster.split_and_move("scripted", {"n": 50})
    posts.insert_many([{"n": n} for n in range(100)])
    assert sorted(row["n"] for row in posts.find({"$where": "this.n % 25 == 0"})) == [0, 25, 50, 75]
    double = {"$function": {"body": "function (n) { return n * 2 }", "args": ["$n"], "lang": "js"}}
    found = posts.aggregate([{"$project": {"v": double}}, {"$sort": {"v": 1}}, {"$limit": 3}], batchSize=2)
    assert [row["v"] for row in found] == [0, 2, 4]
    total = {
        "init": "function () { return 0 }",
        "accumulate": "function (state, n) { return state + n }",
        "accumulateArgs": ["$n"],
        "merge": "function (one, other) { return one + other }",
        "finalize": "function (state) { return -state }",
        "lang": "js",
    }
    grouped = posts.aggregate([{"$group": {"_id": None, "v": {"$accumulator": total}}}, {"$set": {"n": "$v"}}])
    assert list(grouped) == [{"_id": None, "v": -4950.0, "n": -4950.0}]
    late = posts.aggregate([{"$group": {"_id": "$n"}}, {"$set": {"n": "$_id"}}, {"$set": {"v": double}}], batchSize=7)
    assert sum(row["v"] for row in late) == 9900
    assert posts.update_many({"$where": "this.n >= 90"}, {"$set": {"late": True}}).modified_count == 10
    assert posts.delete_many({"$where": "this.late"}).deleted_count == 10
    with pytest.raises(OperationFailure) as raised:
        list(posts.find({"$where": "throw new Error('no')"}))
    assert raised.value.code == 139


def test_what_a_pipeline_reads_beside_its_collection_is_all_there(cluster: Cluster) -> None:
    """Views over what is sharded, and collections that are sharded or moved behind a router's back."""
    one, two = (client.test for client in cluster.clients)
    here = cluster.shard("beside", {"k": 1})
    here.insert_many([{"_id": n, "k": n, "g": n % 3} for n in range(30)])
    cluster.split_and_move("beside", {"k": 15})
    one.command("create", "beside_view", viewOn="beside", pipeline=[{"$match": {"k": {"$gte": 3}}}])
    one.command("create", "beside_union", viewOn="groups", pipeline=[{"$unionWith": "beside_view"}])
    one.groups.insert_many([{"_id": g, "g": g} for g in range(3)])
    one.towns.insert_many([{"_id": n, "g": n % 3} for n in range(12)])

    def counts(database: Any, other: str, source: str = "groups") -> list[int]:
        join = {"$lookup": {"from": other, "localField": "g", "foreignField": "g", "as": "r"}}
        found = database[source].aggregate([{"$match": {"_id": {"$lt": 3}}}, join, {"$sort": {"_id": 1}}])
        return [len(row["r"]) for row in found]

    for _ in range(2):
        for database in (one, two):
            assert counts(database, "beside_view") == [9, 9, 9]
            assert counts(database, "beside_union") == [10, 10, 10]
            assert counts(database, "towns") == [4, 4, 4]
            assert counts(database, "towns", "beside") == [4, 4, 4]
    # The first router hears of nothing.
    cluster.clients[1].admin.command("shardCollection", "test.towns", key={"_id": 1})
    cluster.clients[1].admin.command("split", "test.towns", middle={"_id": 6})
    cluster.clients[1].admin.command("moveChunk", "test.towns", find={"_id": 6}, to="two")
    for database in (one, two):
        assert counts(database, "towns") == [4, 4, 4]
        assert counts(database, "towns", "beside") == [4, 4, 4]
    two.towns.drop()
    two.towns.insert_many([{"_id": n, "g": n % 3} for n in range(6)])
    for _ in range(2):
        for database in (one, two):
            assert counts(database, "towns") == [2, 2, 2]
    two.beside_view.drop()
    two.command("create", "beside_view", viewOn="towns", pipeline=[])
    for database in (one, two):
        assert counts(database, "beside_view") == [2, 2, 2]
        assert counts(database, "beside_union") == [3, 3, 3]


def test_what_is_not_sharded_is_joined_under_its_own_collation(cluster: Cluster) -> None:
    test = cluster.client.test
    words = cluster.shard("words", {"_id": 1})
    words.insert_many([{"_id": n, "s": text} for n, text in enumerate(["a", "A", "\u00e1", "b", "B"])])
    cluster.split_and_move("words", {"_id": 2})
    test.command("create", "folded", collation={"locale": "en", "strength": 1})
    test.folded.insert_many([{"_id": 1, "s": "a"}, {"_id": 2, "s": "b"}])
    join: dict[str, Any] = {"from": "words", "localField": "s", "foreignField": "s", "as": "r"}
    stages = [{"$lookup": join}, {"$project": {"n": {"$size": "$r"}}}, {"$sort": {"_id": 1}}]
    assert [row["n"] for row in test.folded.aggregate(stages)] == [3, 2]
    assert [row["n"] for row in test.folded.aggregate(stages, collation={"locale": "simple"})] == [1, 1]
    with cluster.client.start_session() as session, session.start_transaction():
        assert [row["n"] for row in test.folded.aggregate(stages, session=session)] == [3, 2]
