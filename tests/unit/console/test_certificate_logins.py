"""Who logs in to the console by a certificate, and what of it is asked again."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from docstore.commands.access.control import X509
from docstore.net.tls import certificates
from docstore.security.certificates import BadCertificate, Certificate
from tests.harness.certificates import Authority, name
from tests.harness.serving import run
from tests.unit.console.certified import ANN, BY_CERTIFICATE, Clients
from tests.unit.console.served import Console
from tests.unit.console.test_logins import OK
from tests.unit.console.test_metrics import basic

BOB = "CN=bob,DC=org"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def status_of(served: Console, cookie: str) -> int:
    answer = await served.ask("/api/command", {"db": "shop", "command": {"find": "c"}}, headers={"Cookie": cookie})
    return answer.status


def test_a_client_is_logged_in_as_whom_its_certificate_names(authority: Authority) -> None:
    clients = Clients(authority)

    async def scenario() -> None:
        async with clients.console() as served:
            served.context = clients.ann
            told = (await served.ask("/api/session")).told
            assert (told["certificate"], told["user"]) == (ANN, None)
            # To show it is not yet to log in, as on the main port.
            assert await status_of(served, "") == 401
            answer = await served.ask("/api/login", BY_CERTIFICATE)
            assert (answer.status, answer.told["user"]) == (200, {"user": ANN, "db": "$external"})
            cookie = await served.log_in_by({**BY_CERTIFICATE, "user": ANN})
            assert (await served.command({"find": "c"}, Cookie=cookie))["ok"] == OK
            refused = await served.command({"insert": "c", "documents": [{}]}, Cookie=cookie)
            assert refused["codeName"] == "Unauthorized"
            who = (await served.command({"connectionStatus": 1}, Cookie=cookie))["authInfo"]["authenticatedUsers"]
            assert who == [{"user": ANN, "db": "$external"}]
            assert (await served.ask("/api/session", headers={"Cookie": cookie})).told["user"] == who[0]
            assert (await served.ask("/api/logout", {}, headers={"Cookie": cookie})).status == 200
            assert await status_of(served, cookie) == 401

    run(scenario())


def test_a_login_by_certificate_is_of_no_use_without_it(authority: Authority) -> None:
    clients = Clients(authority)

    async def scenario() -> None:
        async with clients.console() as served:
            served.context = clients.ann
            cookie = await served.log_in_by(BY_CERTIFICATE)
            for served.context in (clients.none, clients.bob):
                assert await status_of(served, cookie) == 401
                assert (await served.ask("/api/session", headers={"Cookie": cookie})).told["user"] is None
                await served.ask("/api/logout", {}, headers={"Cookie": cookie})
            served.context = clients.showing(clients.authority.issue("new", name(DC="org", CN="ann")))
            assert await status_of(served, cookie) == 200
            # One by password is that of whoever has its key.
            cookie = await served.log_in("reader")
            served.context = clients.bob
            assert await status_of(served, cookie) == 200

    run(scenario())


def test_nobody_else_is_let_in(authority: Authority) -> None:
    clients = Clients(authority)
    refused: list[tuple[ssl.SSLContext, dict[str, Any], int]] = [
        (clients.bob, {}, 401), (clients.none, {}, 401), (clients.none, {"user": ANN}, 401),
        (clients.bob, {"user": ANN}, 401), (clients.ann, {"user": BOB}, 401), (clients.ann, {"user": "root"}, 401),
        (clients.ann, {"user": ""}, 401), (clients.ann, {"user": 1}, 400), (clients.ann, {"user": None}, 400),
        (clients.ann, {"user": "\ud800"}, 400), (clients.ann, {"password": "x"}, 400),
        (clients.ann, {"db": "$external"}, 400), (clients.ann, {"mechanism": 1}, 400),
        (clients.ann, {"mechanism": "PLAIN"}, 400), (clients.ann, {"mechanism": "SCRAM-SHA-256"}, 400),
    ]  # fmt: skip

    async def scenario() -> None:
        async with clients.console() as served:
            for served.context, body, status in refused:
                answer = await served.ask("/api/login", {**BY_CERTIFICATE, **body})
                assert answer.status == status, body
                assert "set-cookie" not in answer.headers
                assert answer.told["error"] == "Authentication failed." or status == 400
            assert len(served.node.services.peers) == 1

    run(scenario())


@pytest.mark.parametrize("options", [{"ca_file": None}, {"invalid_certificates": True}])
def test_certificates_that_nobody_has_checked_name_nobody(authority: Authority, options: dict[str, Any]) -> None:
    clients = Clients(authority, **options)

    async def scenario() -> None:
        async with clients.console() as served:
            served.context = clients.ann
            assert (await served.ask("/api/session")).told["certificate"] is None
            assert (await served.ask("/api/login", BY_CERTIFICATE)).status == 401
            assert (await served.ask("/metrics")).status == 401

    run(scenario())


def test_a_certificate_that_cannot_be_read_names_nobody(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(authority)

    def read(_der: bytes) -> Certificate:
        raise BadCertificate("of another kind")

    async def scenario() -> None:
        async with clients.console() as served:
            monkeypatch.setattr(certificates, "read_certificate", read)
            served.context = clients.ann
            assert (await served.ask("/api/session")).told["certificate"] is None
            assert (await served.ask("/api/login", BY_CERTIFICATE)).status == 401

    run(scenario())


def test_certificates_that_are_not_good_do_not_connect(tmp_path: Path, authority: Authority) -> None:
    ann = name(DC="org", CN="ann")
    stranger = Authority(tmp_path / "strange").issue("ann", ann)
    revoked, ended = authority.issue("revoked", ann, revoked=True), authority.issue("ended", ann, days=-1)
    clients = Clients(authority, crl_file=authority.revocations())

    async def scenario() -> None:
        async with clients.console() as served:
            for served.context in map(clients.showing, (revoked, stranger, ended)):
                with pytest.raises((ConnectionError, EOFError, ssl.SSLError)):
                    await served.ask("/api/login", BY_CERTIFICATE)
            served.context = clients.ann
            await served.log_in_by(BY_CERTIFICATE)

    run(scenario())


def test_where_users_do_not_authenticate_by_certificates_none_is_asked_for(authority: Authority) -> None:
    clients = Clients(authority)

    async def scenario() -> None:
        async with clients.console() as served:
            access = served.node.services.access
            access.mechanisms = tuple(each for each in access.mechanisms if each != X509)
            served.context = clients.ann
            assert (await served.ask("/api/session")).told["certificate"] is None
            assert (await served.ask("/api/login", BY_CERTIFICATE)).status == 401

    run(scenario())


def test_a_login_by_certificate_ends_with_its_user_and_obeys_its_restrictions(authority: Authority) -> None:
    clients = Clients(authority)

    async def scenario() -> None:
        async with clients.console() as served:
            root = await served.log_in("root")
            served.context = clients.ann
            cookie = await served.log_in_by(BY_CERTIFICATE)
            elsewhere = [{"clientSource": ["10.9.8.7"]}]
            command = {"updateUser": ANN, "authenticationRestrictions": elsewhere}
            assert (await served.command(command, "$external", Cookie=root))["ok"] == OK
            assert (await served.ask("/api/login", BY_CERTIFICATE)).status == 401
            assert (await served.command({"dropUser": ANN}, "$external", Cookie=root))["ok"] == OK
            assert (await served.command({"find": "c"}, Cookie=cookie))["codeName"] == "Unauthorized"
            assert await status_of(served, cookie) == 401

    run(scenario())


def test_figures_are_read_by_certificate_alone(authority: Authority) -> None:
    clients = Clients(authority)

    async def scenario() -> None:
        async with clients.console() as served:
            for served.context, headers, status in (
                (clients.ann, {}, 200), (clients.ann, {}, 200), (clients.bob, {}, 401), (clients.none, {}, 401),
                (clients.ann, basic("reader"), 403), (clients.ann, basic("monitor", "wrong"), 401),
                (clients.bob, basic("monitor"), 200),
            ):  # fmt: skip
                assert (await served.ask("/metrics", headers=headers)).status == status
            # Those of root, ann, reader and monitor: what has proven to be ann once is remembered.
            assert len(served.node.services.peers) == 4

    run(scenario())
