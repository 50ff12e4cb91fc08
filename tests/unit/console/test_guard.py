"""Requests that the page of somebody else could have made, or a name that somebody else has pointed here."""

from __future__ import annotations

import socket

import pytest

from docstore.console.assets import Assets
from docstore.console.guard import Guard, Refused
from tests.harness.serving import run
from tests.unit.console.served import console

PING = {"db": "shop", "command": {"ping": 1}}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:1", "127.0.0.1", "localhost:28017", "LOCALHOST.", "[::1]:80", "[::1]", "10.1.2.3:1", "db.example:1",
     socket.gethostname()],
)  # fmt: skip
def test_names_and_addresses_of_this_machine_are_answered(host: str) -> None:
    Guard(["DB.example"]).check_host(host)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:x", "[::1]x",
             "[::1", "[evil]", "localhost@evil.example", "0x7f.1", "2130706433", "::1"],
)  # fmt: skip
def test_other_names_are_refused(host: str | None) -> None:
    with pytest.raises(Refused) as caught:
        Guard(["db.example"]).check_host(host)
    assert caught.value.status == 421


def test_nothing_is_told_to_who_calls_this_machine_by_a_wrong_name() -> None:
    async def scenario() -> None:
        async with console() as served:
            for path in ("/", "/metrics", "/api/session", "/nothing", "/assets/x/y"):
                answer = await served.ask(path, headers={"Host": "evil.example"})
                assert (answer.status, list(answer.told)) == (421, ["error"])
            answer = await served.ask("/api/command", PING, headers={"Host": "evil.example"})
            assert answer.status == 421

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Docstore-Console": None}, 403), ({"Content-Type": "text/plain"}, 415), ({"Content-Type": None}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415), ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403), ({"Origin": "http://[::1"}, 403), ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403), ({"Origin": "OWN", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)  # fmt: skip
def test_a_post_that_another_page_could_have_made_is_refused(headers: dict[str, str | None], status: int) -> None:
    async def scenario() -> None:
        async with console() as served:
            told = {name: f"http://{served.host}" if value == "OWN" else value for name, value in headers.items()}
            assert (await served.ask("/api/command", PING, headers=told)).status == status

    run(scenario())


@pytest.mark.parametrize("path", ["/api/command", "/api/bson", "/api/login", "/api/logout"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"])
def test_nothing_but_a_post_changes_anything_and_no_other_origin_is_allowed(method: str, path: str) -> None:
    async def scenario() -> None:
        async with console() as served:
            origin = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
            answer = await served.ask(path, method=method, headers=origin)
            assert answer.status == 405
            assert not [name for name in answer.headers if name.startswith("access-control")]

    run(scenario())


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    async def scenario() -> None:
        async with console() as served:
            for path in ("/", "/api/session", "/metrics", "/nothing", "/assets/0000000000000000/main.js"):
                answer = await served.ask(path)
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["x-frame-options"] == "DENY"
                assert "server" not in answer.headers

    run(scenario())


def test_only_the_worker_of_the_shell_runs_what_is_typed() -> None:
    async def scenario() -> None:
        async with console() as served:
            assets = Assets()
            for name in ("main.js", "shell.js", "shell_runtime.js", "shell_worker.js"):
                answer = await served.ask(f"/assets/{assets.version}/{name}")
                assert answer.status == 200
                policy = answer.headers["content-security-policy"]
                assert ("'unsafe-eval'" in policy) == (name == "shell_worker.js")
                assert "default-src 'none'" in policy

    run(scenario())
