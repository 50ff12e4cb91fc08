"""Processes that authenticate to each other before their first command, and what strangers may send."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest

from docstore.commands.builtin import authentication
from docstore.commands.declaration import INTERNAL
from docstore.commands.dispatch import Dispatcher
from docstore.errors import Code
from docstore.net import Listener, Pool
from docstore.net.access.key_file import cluster_keys
from docstore.net.errors import NetworkError
from docstore.net.guarded_connection import UNPROVEN_BYTES
from docstore.net.process import StartError
from docstore.options.values import SecurityOptions
from docstore.security.cluster_keys import MECHANISM, ClusterKeys
from docstore.security.scram import LEAST_ITERATIONS, SALT_BYTES
from docstore.wire.compression import wrap
from tests.harness.dispatching import command, services_of
from tests.harness.serving import LOOPBACK, BareClient, hello, run, serving

OF_MEMBERS = command("ofMembers", privilege=INTERNAL)
PING = command("ping", tolerant=True)


def keys_of(*keys: str, lenient: bool = False) -> ClusterKeys:
    return ClusterKeys(keys, bytes(SALT_BYTES[MECHANISM]), lenient=lenient, iterations=LEAST_ITERATIONS)


@contextlib.asynccontextmanager
async def guarded(keys: ClusterKeys | None) -> AsyncIterator[Listener]:
    services = services_of((*authentication.COMMANDS, hello(), OF_MEMBERS, PING), clock=monotonic)
    services.access.enabled, services.access.keys = True, keys
    async with serving(dispatcher=Dispatcher(services)) as listener:
        yield listener


@pytest.mark.parametrize("keys", [("one key",), ("another", "one key"), ("one key", "another")])
def test_a_process_that_knows_a_key_is_a_member(keys: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with guarded(keys_of("one key", "third key")) as listener:
            pool, address = Pool(keys=keys_of(*keys)), f"{LOOPBACK}:{listener.port}"
            for _ in range(2):
                await pool.command(address, "admin", {"ofMembers": 1})
            # What is connected anew is authenticated anew.
            for connection in listener.connections:
                connection.abort()
            with contextlib.suppress(NetworkError):
                await pool.command(address, "admin", {"ofMembers": 1})
            await pool.command(address, "admin", {"ofMembers": 1})
            await pool.close()

    run(scenario())


@pytest.mark.parametrize("server", [("another",), None])
def test_who_is_not_taken_sends_nothing(server: tuple[str, ...] | None) -> None:
    async def scenario() -> None:
        async with guarded(None if server is None else keys_of(*server)) as listener:
            address = f"{LOOPBACK}:{listener.port}"
            strict, lenient = Pool(keys=keys_of("one key")), Pool(keys=keys_of("one key", lenient=True))
            with pytest.raises(NetworkError, match="authentication failed: Authentication failed") as failure:
                await strict.command(address, "admin", {"ping": 1})
            assert (failure.value.code, failure.value.sent) == (Code.AuthenticationFailed, False)
            assert strict.statistics() == {}
            await lenient.command(address, "admin", {"ping": 1})
            assert lenient.statistics()[address]["open"] == 1
            for pool in (strict, lenient):
                await pool.close()

    run(scenario())


def test_a_stranger_sends_short_messages_only() -> None:
    async def scenario() -> None:
        async with guarded(keys_of("one key")) as listener:
            for cut in (False, True):
                client = await BareClient.connect(listener)
                assert (await client.ask({"ping": 1, "comment": "x" * (UNPROVEN_BYTES - 200)}))["ok"]
                frame = client.frame({"ping": 1, "comment": "x" * UNPROVEN_BYTES})
                await client.write(frame[:100] if cut else frame)
                assert b"before authentication" in (await client.receive()).body
                assert await client.closed()
            client = await BareClient.connect(listener)
            await client.write(wrap(client.frame({"ping": 1, "comment": "x" * UNPROVEN_BYTES}), 2))
            assert b"before authentication" in (await client.receive()).body
            assert await client.closed()
            pool, address = Pool(keys=keys_of("one key")), f"{LOOPBACK}:{listener.port}"
            await pool.command(address, "admin", {"ping": 1, "comment": "x" * (20 * UNPROVEN_BYTES)})
            await pool.close()

    run(scenario())


def test_a_key_file_is_read_when_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    options = SecurityOptions(key_file=path, transition=True)
    with pytest.raises(StartError, match="cannot read the key file"):
        cluster_keys(options)
    path.write_text("- one\n- two\n")
    for mode in (0o604, 0o640, 0o610, 0o602):
        path.chmod(mode)
        with pytest.raises(StartError, match="too open"):
            cluster_keys(options)
    path.chmod(0o600)
    with pytest.raises(StartError, match="not usable: a key has 3 characters"):
        cluster_keys(options)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(StartError, match="it is no text"):
        cluster_keys(options)
    path.write_text("- onekey\n- twokey\n")
    keys = cluster_keys(options)
    assert keys is not None
    assert (len(keys), keys.lenient) == (2, True)
    assert "onekey" not in repr(keys)
    assert cluster_keys(SecurityOptions()) is None
