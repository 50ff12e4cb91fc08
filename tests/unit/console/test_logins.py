"""Who logs in to the console, and what that lets them do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from docstore.console import logins
from docstore.console.logins import Ends, LoginRefused, Password, TooBusy
from tests.harness.serving import run
from tests.unit.console.served import PASSWORD, Console, console

FIND = {"find": "orders"}
OK = {"$numberDouble": "1.0"}
ENDS = Ends("127.0.0.1:5", "127.0.0.1:1")


async def status_of(served: Console, cookie: str = "") -> int:
    headers = {"Cookie": cookie} if cookie else {}
    return (await served.ask("/api/command", {"db": "shop", "command": FIND}, headers=headers)).status


def test_without_a_login_nothing_is_run() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            assert (await served.ask("/api/session")).told == {
                "process": "mongod", "loginRequired": True, "user": None, "shell": True, "certificate": None,
            }  # fmt: skip
            for cookie in ("", f"docstore-console-{served.port}=x", "docstore-console-1=y"):
                assert await status_of(served, cookie) == 401
            # Nor by authenticating on the way of commands.
            body = {"db": "admin", "command": {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": ""}}
            assert (await served.ask("/api/command", body)).status == 401

    run(scenario())


def test_a_login_may_do_what_its_user_may() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            cookie = await served.log_in("reader")
            assert (await served.command(FIND, Cookie=cookie))["ok"] == OK
            refused = await served.command({"insert": "orders", "documents": [{}]}, Cookie=cookie)
            assert refused["codeName"] == "Unauthorized"
            told = (await served.ask("/api/session", headers={"Cookie": cookie})).told
            assert told["user"] == {"user": "reader", "db": "admin"}
            assert (await served.ask("/api/logout", {}, headers={"Cookie": cookie})).status == 200
            assert await status_of(served, cookie) == 401

    run(scenario())


def test_the_cookie_alone_is_no_login() -> None:
    """Browsers send it to whoever listens on another port of this host."""

    async def scenario() -> None:
        async with console(auth=True) as served:
            cookie = await served.log_in("root")
            other = await served.log_in("reader")
            own = served.keys[cookie]
            for key in ("1", "", served.keys[other]):
                served.keys[cookie] = key
                assert await status_of(served, cookie) == 401
                assert (await served.ask("/api/session", headers={"Cookie": cookie})).told["user"] is None
                await served.ask("/api/logout", {}, headers={"Cookie": cookie})
            assert (await served.ask("/metrics", headers={"Cookie": cookie})).status == 401
            served.keys[cookie] = own
            assert await status_of(served, cookie) == 200

    run(scenario())


def test_scripts_and_other_sites_have_no_use_of_the_cookie() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            answer = await served.ask("/api/login", {"user": "reader", "password": PASSWORD})
            name, *traits = answer.headers["set-cookie"].split("; ")
            assert name.startswith(f"docstore-console-{served.port}=")
            assert {"HttpOnly", "Path=/", "SameSite=Strict"} <= set(traits)
            assert "Secure" not in traits

    run(scenario())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"user": "reader", "password": "wrong"}, 401), ({"user": "nobody", "password": PASSWORD}, 401),
        ({"user": "reader", "password": PASSWORD, "db": "shop"}, 401), ({"user": "", "password": ""}, 401),
        ({"user": "reader,r=x", "password": PASSWORD}, 401), ({"user": "reader", "password": "\0"}, 401),
        ({"user": "reader", "password": PASSWORD, "db": "$external"}, 401),
        ({"user": "reader", "password": PASSWORD, "db": ""}, 401), ({"user": "reader", "password": 1}, 400),
        ({"user": {"$ne": ""}, "password": PASSWORD}, 400), ({"user": "reader"}, 400), ({}, 400),
        ({"user": "\ud800", "password": PASSWORD}, 400), ({"user": "x" * 5000, "password": PASSWORD}, 413),
    ],
)  # fmt: skip
def test_who_does_not_know_the_password_is_not_let_in(body: dict[str, object], status: int) -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            answer = await served.ask("/api/login", body)
            assert answer.status == status
            assert "set-cookie" not in answer.headers
            if status == 401:
                assert answer.told == {"error": "Authentication failed."}

    run(scenario())


def test_where_nobody_has_to_log_in_nobody_can() -> None:
    async def scenario() -> None:
        async with console() as served:
            assert (await served.ask("/api/login", {"user": "reader", "password": PASSWORD})).status == 400
            assert await status_of(served) == 200

    run(scenario())


def test_a_login_ends_with_its_user() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            reader, root = await served.log_in("reader"), await served.log_in("root")
            assert (await served.command({"dropUser": "reader"}, "admin", Cookie=root))["ok"] == OK
            assert (await served.command(FIND, Cookie=reader))["codeName"] == "Unauthorized"
            assert await status_of(served, reader) == 401

    run(scenario())


@pytest.mark.parametrize("seconds", [logins.IDLE_SECONDS, logins.LONGEST_SECONDS])
def test_a_login_does_not_last_for_ever(seconds: float) -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            cookie = await served.log_in("reader")
            clock: Callable[[], float] = served.logins._clock
            late = 0.0
            served.logins._clock = lambda: clock() + late
            while late < seconds - logins.IDLE_SECONDS:
                late += logins.IDLE_SECONDS / 2
                assert await status_of(served, cookie) == 200
            late = seconds
            assert await status_of(served, cookie) == 401

    run(scenario())


def test_there_are_only_so_many_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST_LOGINS", 2)

    async def scenario() -> None:
        async with console(auth=True) as served:
            first, second = await served.log_in("reader"), await served.log_in("reader")
            assert await status_of(served, first) == 200
            third = await served.log_in("reader")
            assert [await status_of(served, each) for each in (first, second, third)] == [200, 401, 200]
            assert len(served.node.services.peers) == 2

    run(scenario())


def test_a_user_throws_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST_OF_USER", 3)

    async def scenario() -> None:
        async with console(auth=True) as served:
            root = await served.log_in("root")
            found = [await served.log_in("reader") for _ in range(5)]
            assert [await status_of(served, cookie) for cookie in found] == [401, 401, 200, 200, 200]
            assert await status_of(served, root) == 200

    run(scenario())


def test_a_login_is_of_no_use_from_where_its_user_may_not_come() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            root = await served.log_in("root")
            allowed = [{"clientSource": ["127.0.0.1"]}]
            created = {"createUser": "near", "pwd": PASSWORD, "roles": [], "authenticationRestrictions": allowed}
            assert (await served.command(created, "admin", Cookie=root))["ok"] == OK
            token, key, _ = await served.logins.log_in(Password("near", "admin", PASSWORD), ENDS)
            assert served.logins.find(token, key, None, ENDS) is not None
            assert served.logins.find(token, key, None, Ends("10.0.0.1:5", ENDS.local)) is None
            assert served.logins.find(token, key, None, ENDS) is not None

    run(scenario())


def test_only_so_many_are_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST_WAITING", 2)

    async def scenario() -> None:
        async with console(auth=True) as served:
            tried = [served.logins.log_in(Password("reader", "admin", "wrong"), ENDS) for _ in range(3)]
            found = await asyncio.gather(*tried, return_exceptions=True)
            assert sorted(type(each).__name__ for each in found) == ["LoginRefused", "LoginRefused", "TooBusy"]
            assert {LoginRefused, TooBusy} == {type(each) for each in found}

    run(scenario())


def test_others_log_in_while_attempts_as_one_user_are_delayed() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            going_on = asyncio.Event()

            async def pause(_seconds: float) -> None:
                await going_on.wait()

            access = served.node.services.access
            access.pause = pause
            access.attempts.allowed = 1
            wrong = Password("nobody", "admin", "wrong")
            with pytest.raises(LoginRefused):
                await served.logins.log_in(wrong, ENDS)
            tried = [asyncio.create_task(served.logins.log_in(wrong, ENDS)) for _ in range(logins.MOST_WAITING)]
            await asyncio.sleep(0)
            assert await served.logins.log_in(Password("reader", "admin", PASSWORD), ENDS)
            assert not any(task.done() for task in tried)
            going_on.set()
            await asyncio.gather(*tried, return_exceptions=True)

    run(scenario())


def test_a_password_with_every_request_is_tried_once_until_users_change() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            asked = (Password("monitor", "admin", PASSWORD), ENDS)
            first = await served.logins.with_request(*asked)
            assert await served.logins.with_request(*asked) is first
            with pytest.raises(LoginRefused):
                await served.logins.with_request(Password("monitor", "admin", "wrong"), ENDS)
            root = await served.log_in("root")
            changed = {"updateUser": "monitor", "pwd": "another"}
            assert (await served.command(changed, "admin", Cookie=root))["ok"] == OK
            with pytest.raises(LoginRefused):
                await served.logins.with_request(*asked)

    run(scenario())
