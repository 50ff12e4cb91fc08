"""What Prometheus reads: names, types and figures, and who may read it."""

from __future__ import annotations

import base64
import re
from typing import Any

from bson.datetime_ms import DatetimeMS
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector

from docstore.console.metrics.gather import Figures
from docstore.console.metrics.replication import lags_of, replication_metrics
from docstore.console.metrics.sharding import sharding_metrics
from tests.harness.serving import run
from tests.unit.console.served import PASSWORD, Console, console

UNITS = re.compile(r"_(milliseconds|millis|micros|minutes|megabytes|kilobytes)\b")


async def read(served: Console, **headers: str) -> dict[str, Any]:
    """The values by name and labels, as Prometheus writes them."""
    answer = await served.ask("/metrics", headers=headers)
    assert answer.status == 200, answer.body
    return values(parse(answer.body.decode()))


def values(families: Any) -> dict[str, float]:
    found = {}
    for family in families:
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_the_figures_are_those_of_the_process() -> None:
    async def scenario() -> None:
        async with console(replicated=True) as served:
            await served.command({"insert": "orders", "documents": [{"_id": number} for number in range(5)]})
            await served.command({"find": "orders", "batchSize": 2})
            await served.command({"find": "orders", "filter": {"$no": 1}})
            found = await read(served)
            assert found['docstore_operations_total{type="insert"}'] == 5
            assert found['docstore_commands_total{command="find"}'] == 2
            assert found['docstore_command_failures_total{command="find"}'] == found["docstore_errors_total"] == 1
            assert found['docstore_operation_latency_seconds_count{kind="writes"}'] == 1
            assert found["docstore_cursors_open"] == found["docstore_cursors_opened_total"] == 1
            assert found["process_resident_memory_bytes"] > 1 << 20
            assert found["docstore_oplog_window_seconds"] >= 0
            assert found['docstore_storage_engine_info{engine="inMemory"}'] == 1

    run(scenario())


def test_names_and_types_follow_the_rules() -> None:
    async def scenario() -> None:
        async with console(replicated=True) as served:
            await served.command({"insert": "orders", "documents": [{"_id": 1}]})
            text = (await served.ask("/metrics")).body.decode()
            families = list(parse(text))
            assert len({family.name for family in families}) == len(families)
            for family in families:
                assert family.name.startswith(("docstore_", "process_"))
                assert family.documentation
                assert not UNITS.search(family.name), family.name
                if family.type == "counter":
                    assert all(sample.name.endswith("_total") for sample in family.samples)
                else:
                    assert not family.name.endswith("_total")
            accept = {"Accept": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
            answer = await served.ask("/metrics", headers=accept)
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            assert {family.name for family in parse_open(answer.body.decode())} == {each.name for each in families}

    run(scenario())


def basic(user: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_with_access_control_a_user_who_may_see_them_logs_in() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            assert (await read(served, **basic("monitor")))["docstore_uptime_seconds"] >= 0
            assert (await served.ask("/metrics", headers=basic("reader"))).status == 403
            texts = ("Basic x", "Basic /w==", "Basic \xe9", "Bearer x")
            for headers in (
                {},
                basic("monitor", "wrong"),
                basic("nobody"),
                *({"Authorization": text} for text in texts),
            ):
                answer = await served.ask("/metrics", headers=headers)
                assert answer.status == 401
                assert answer.headers["www-authenticate"].startswith("Basic ")
            wrong = await served.ask("/metrics?authSource=shop", headers=basic("monitor"))
            assert wrong.status == 401
            # A password with a request is for metrics alone: browsers would send it along with any.
            body = {"db": "shop", "command": {"ping": 1}}
            assert (await served.ask("/api/command", body, headers=basic("root"))).status == 401

    run(scenario())


def test_a_command_without_an_answer_leaves_the_others_to_be_told() -> None:
    async def scenario() -> None:
        async with console(replicated=True) as served:
            # A node in memory has no replSetGetStatus.
            found = await read(served)
            assert found['docstore_scrape_failed{command="replSetGetStatus"}'] == 1
            assert "docstore_replset_term" not in found

    run(scenario())


class Once(Collector):
    def __init__(self, metrics: Any) -> None:
        self.metrics = list(metrics)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self.metrics


def shown(metrics: Any) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(Once(metrics))
    return values(parse(generate_latest(registry).decode()))


def member(name: str, state: int, seconds: int, **fields: Any) -> dict[str, Any]:
    date = DatetimeMS(seconds * 1000)
    return {"name": name, "state": state, "health": 1.0, "optimeDate": date, **fields}


def test_members_of_a_set() -> None:
    members = [member("a:1", 1, 100), member("b:1", 2, 97, pingMs=4), member("c:1", 7, 0), member("d:1", 8, 0)]
    optimes = {"lastAppliedWallTime": DatetimeMS(100_000), "lastCommittedWallTime": DatetimeMS(98_500)}
    status = {"set": "rs", "myState": 1, "term": 3, "members": members, "optimes": optimes}
    found = shown(replication_metrics({}, status))
    assert found['docstore_replset_member_lag_seconds{member="b:1",set="rs"}'] == 3
    assert 'docstore_replset_member_lag_seconds{member="c:1",set="rs"}' not in found
    assert found['docstore_replset_member_state{member="d:1",set="rs"}'] == 8
    assert found['docstore_replset_member_ping_seconds{member="b:1",set="rs"}'] == 0.004
    assert found["docstore_replset_commit_lag_seconds"] == 1.5
    assert lags_of([member("a:1", 2, 100), member("b:1", 2, 97)]) == {"a:1": 0, "b:1": 3}
    assert lags_of([]) == {}


def test_a_cluster() -> None:
    figures = Figures(
        {"process": "mongos"},
        shards=[{"_id": "one"}, {"_id": "two", "draining": True}],
        chunks=[{"_id": {"ns": 'shop."x"\n', "shard": "one"}, "chunks": 3}],
        balancer={"mode": "full", "inBalancerRound": True, "numBalancerRounds": 7},
        moves=[{"ns": "shop.x", "shard": "one", "to": "two"}] * 2,
        members={"replicaSets": {"one": {"hosts": [{"addr": "a:1", "ok": True, "ismaster": True, "lagSeconds": 0.0}]}}},
    )
    found = shown(sharding_metrics(figures))
    assert (
        found['docstore_sharding_shards{state="draining"}'] == found['docstore_sharding_shards{state="serving"}'] == 1
    )
    assert found['docstore_sharding_chunks{collection="shop."x"\n",shard="one"}'] == 3
    assert found['docstore_sharding_moves_active{collection="shop.x",donor="one",recipient="two"}'] == 2
    assert found["docstore_sharding_balancer_in_round"] == found["docstore_sharding_balancer_enabled"] == 1
    assert found['docstore_sharding_member_up{member="a:1",set="one"}'] == 1
