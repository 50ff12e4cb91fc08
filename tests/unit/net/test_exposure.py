"""Who is let in from where without being told to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.net.access.exposure import UNRESTRICTED, Reach, check_exposure, reach_of
from docstore.net.process import StartError
from docstore.options import NetworkOptions, Options
from docstore.options.values import SecurityOptions

MACHINE, PRIVATE, ANYWHERE = Reach.MACHINE, Reach.PRIVATE, Reach.ANYWHERE


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("127.0.0.1", MACHINE), ("127.5.5.5", MACHINE), ("::1", MACHINE), ("localhost", MACHINE),
        ("::ffff:127.0.0.1", MACHINE), ("10.1.2.3", PRIVATE), ("192.168.0.1", PRIVATE), ("172.16.0.1", PRIVATE),
        ("169.254.1.1", PRIVATE), ("fe80::1", PRIVATE), ("fd00::1", PRIVATE), ("0.0.0.0", ANYWHERE), ("::", ANYWHERE),
        ("8.8.8.8", ANYWHERE), ("2001:4860:4860::8888", ANYWHERE), ("::ffff:8.8.8.8", ANYWHERE),
        ("no host has this name.", MACHINE),
    ],
)  # fmt: skip
def test_the_reach_of_an_address(address: str, reach: Reach) -> None:
    assert reach_of(address) is reach


def exposed(*addresses: str, auth: bool = False, told: bool = False) -> Options:
    network = NetworkOptions(addresses, allow_unauthenticated=told)
    return Options(network=network, security=SecurityOptions(auth=auth))


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (exposed("127.0.0.1"), 0), (exposed("127.0.0.1", "10.0.0.1"), 1), (exposed("0.0.0.0", told=True), 1),
        (exposed("0.0.0.0", auth=True), 0), (exposed("10.0.0.1", auth=True), 0),
    ],
)  # fmt: skip
def test_what_is_open_is_said(options: Options, warnings: int, caplog: pytest.LogCaptureFixture) -> None:
    check_exposure(options)
    assert [record.getMessage() for record in caplog.records] == [UNRESTRICTED] * warnings


def test_a_transition_to_access_control_is_as_open() -> None:
    security = SecurityOptions(auth=False, key_file=Path("key"), transition=True)
    options = Options(network=NetworkOptions(("0.0.0.0",)), security=security)
    with pytest.raises(StartError, match="--allowUnauthenticated"):
        check_exposure(options)


@pytest.mark.parametrize("addresses", [("0.0.0.0",), ("127.0.0.1", "8.8.8.8"), ("::",)])
def test_what_is_open_to_everyone_is_refused(addresses: tuple[str, ...]) -> None:
    with pytest.raises(StartError, match="--allowUnauthenticated") as refusal:
        check_exposure(exposed(*addresses))
    assert refusal.value.exit_code == 2
    assert addresses[-1] in str(refusal.value)
