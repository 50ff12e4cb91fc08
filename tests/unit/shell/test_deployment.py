"""Which server gets a command when an address names several."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from shell import deployment as module
from shell.address import parse_address
from shell.deployment import Deployment, Unreachable
from tests.unit.shell.fake_server import Answer, FakeServer, member, router


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRIMARY_WAIT", 0.5)
    monkeypatch.setattr(module, "RETRY_PAUSE", 0.01)


def run(deployment: Deployment, command: dict[str, Any], mode: str | None = None) -> dict[str, Any]:
    preference = None if mode is None else {"mode": mode}
    reply: dict[str, Any] = bson.decode(deployment.run(bson.encode(command | {"$db": "test"}), preference=preference))
    return reply


def to(*servers: FakeServer) -> Deployment:
    return Deployment(parse_address(",".join(server.address for server in servers) + "/test"))


def test_a_single_host_is_used_whatever_it_is() -> None:
    with FakeServer(member("secondary")) as server:
        deployment = to(server)
        assert run(deployment, {"insert": "c"})["code"] == 10107
        assert server.seen == ["insert"]
        deployment.close()


def test_writes_follow_the_primary() -> None:
    with FakeServer(member("secondary")) as second, FakeServer(member("primary")) as first:
        deployment = to(second, first)
        assert run(deployment, {"insert": "c"})["from"] == "primary"
        deployment.close()


def test_a_primary_that_was_not_named_is_found() -> None:
    with (
        FakeServer(member("primary")) as first,
        FakeServer(member("secondary", first.address)) as one,
        FakeServer(member("secondary")) as two,
    ):
        deployment = to(one, two)
        assert run(deployment, {"insert": "c"})["from"] == "primary"
        deployment.close()


def test_reads_that_allow_it_go_to_a_secondary_when_there_is_no_primary() -> None:
    with FakeServer(member("secondary")) as one, FakeServer(member("secondary")) as two:
        deployment = to(one, two)
        assert run(deployment, {"find": "c"}, "secondaryPreferred")["from"] == "secondary"
        with pytest.raises(Unreachable, match="none of the reachable members is primary"):
            run(deployment, {"insert": "c"})
        deployment.close()


def test_a_primary_that_steps_down_is_left_for_the_new_one() -> None:
    with FakeServer(member("primary")) as one, FakeServer(member("secondary")) as two:
        deployment = to(one, two)
        run(deployment, {"insert": "c"})
        one.answer, two.answer = member("secondary"), member("primary")
        assert run(deployment, {"insert": "c"})["from"] == "primary"
        assert two.seen.count("insert") == 1
        deployment.close()


def test_another_router_takes_over_when_one_is_gone() -> None:
    with FakeServer(router) as one, FakeServer(router) as two:
        deployment = to(one, two)
        run(deployment, {"insert": "c"})
        one.stop()
        assert run(deployment, {"insert": "c"})["ok"] == 1.0
        assert two.seen.count("insert") == 1
        deployment.close()


def test_no_live_host_is_an_error_that_names_them() -> None:
    with FakeServer(router) as one, FakeServer(router) as two:
        deployment = to(one, two)
    with pytest.raises(Unreachable, match=f"couldn't connect to server {one.address}"):
        run(deployment, {"insert": "c"})
    deployment.close()


def test_a_write_without_an_answer_is_not_repeated() -> None:
    def dies_in_the_middle(command: dict[str, Any]) -> dict[str, Any] | None:
        return None if "insert" in command else router(command)

    with FakeServer(dies_in_the_middle) as one, FakeServer(router) as two:
        deployment = to(one, two)
        with pytest.raises(Unreachable, match="network error while attempting to run command 'insert'"):
            run(deployment, {"insert": "c"})
        assert "insert" not in two.seen
        deployment.close()


def test_a_read_without_an_answer_is_repeated_elsewhere() -> None:
    def dies_in_the_middle(command: dict[str, Any]) -> dict[str, Any] | None:
        return None if "find" in command else router(command)

    with FakeServer(dies_in_the_middle) as one, FakeServer(router) as two:
        deployment = to(one, two)
        assert run(deployment, {"find": "c"})["ok"] == 1.0
        assert (one.seen.count("find"), two.seen.count("find")) == (1, 1)
        deployment.close()


def test_a_read_that_no_host_answers_ends_with_an_error() -> None:
    def dies_in_the_middle(command: dict[str, Any]) -> dict[str, Any] | None:
        return None if "find" in command else router(command)

    with FakeServer(dies_in_the_middle) as one, FakeServer(dies_in_the_middle) as two:
        deployment = to(one, two)
        with pytest.raises(Unreachable, match="network error while attempting to run command 'find'"):
            run(deployment, {"find": "c"})
        deployment.close()


def test_a_connection_that_the_server_closed_while_idle_is_opened_again() -> None:
    closing = iter((False, True, False, False))

    def forgetful(command: dict[str, Any]) -> dict[str, Any] | None:
        return None if next(closing) else {"ok": 1.0}

    with FakeServer(forgetful) as server:
        deployment = to(server)
        run(deployment, {"ping": 1})
        with pytest.raises(Unreachable):
            run(deployment, {"ping": 1})
        assert run(deployment, {"insert": "c"})["ok"] == 1.0
        deployment.close()


def test_a_read_preference_finds_members_that_were_not_named_and_a_cursor_stays_where_it_is() -> None:
    with FakeServer(member("secondary")) as second, FakeServer(member("primary")) as first:
        known = {"hosts": [first.address, second.address]}
        first.answer, second.answer = telling(first.answer, known), telling(second.answer, known)
        deployment = Deployment(parse_address(f"mongodb://{first.address}/test?replicaSet=s"))
        assert run(deployment, {"find": "c"}, "secondary")["from"] == "secondary"
        holder = deployment.last_server
        assert run(deployment, {"insert": "c"})["from"] == "primary"
        assert deployment.last_server != holder
        body = bson.encode({"getMore": 1, "$db": "test"})
        deployment.run(body, server=holder)
        assert second.seen.count("getMore") == 1
        deployment.close()


def test_members_of_another_set_are_left_alone() -> None:
    with FakeServer(member("primary")) as server:
        deployment = Deployment(parse_address(f"mongodb://{server.address}/test?replicaSet=other"))
        with pytest.raises(Unreachable, match="is no member of the set other"):
            run(deployment, {"insert": "c"})
        deployment.close()


def test_a_direct_connection_follows_nobody() -> None:
    with FakeServer(member("secondary")) as server:
        deployment = Deployment(parse_address(f"mongodb://{server.address}/test?replicaSet=s&directConnection=true"))
        assert run(deployment, {"insert": "c"})["code"] == 10107
        deployment.close()


def telling(answer: Answer, fields: dict[str, Any]) -> Answer:
    """The same server, that says more in its hello."""

    def told(command: dict[str, Any]) -> dict[str, Any] | None:
        reply = answer(command)
        return reply | fields if "hello" in command and reply is not None else reply

    return told
