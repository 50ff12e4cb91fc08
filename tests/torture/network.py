"""A network of namespaces: every host has an address of its own, and any direction between two hosts can be cut.

This process stands in a namespace that routes between the hosts; a cut is a routing rule that swallows packets of one
host to another without a word, as a broken network does. It must run in namespaces of its own (network, mounts and
processes, which `scripts/torture.py` makes with `unshare`, with or without being root), so that nothing of it outlives
the run. The clients are in this process and reach every host, cuts or not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PORT = 27017
_NAMES = Path("/run/netns")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of the network. `bound`: the address that its server listens at, where that is not `ip`, by which all
    know it; `enter` goes in front of a command that is to run on it.
    """

    name: str
    ip: str
    bound: str = ""

    @property
    def address(self) -> str:
        return f"{self.ip}:{PORT}"

    @property
    def enter(self) -> list[str]:
        return [] if self.bound else ["ip", "netns", "exec", self.name]


class Network:
    """Hosts, and the links between them that are cut."""

    def __init__(self) -> None:
        self._hosts: list[Host] = []
        self._cut: set[tuple[Host, Host]] = set()
        _NAMES.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", str(_NAMES))
        _run("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def add(self, name: str) -> Host:
        number = len(self._hosts) + 1
        host = Host(name, f"10.77.{number}.2")
        gateway, inner, outer = f"10.77.{number}.1", f"in{number}", f"out{number}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        _run("ip", "addr", "add", f"{gateway}/24", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run("ip", "-n", name, "addr", "add", f"{host.ip}/24", "dev", inner)
        _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", name, "link", "set", inner, "up")
        _run("ip", "-n", name, "route", "add", "default", "via", gateway)
        self._hosts.append(host)
        return host

    def cut(self, links: Iterable[tuple[Host, Host]]) -> None:
        """From now on nothing gets from the first to the second of each pair."""
        for link in set(links) - self._cut:
            self._rule("add", link)
            self._cut.add(link)

    def mend(self, links: Iterable[tuple[Host, Host]]) -> None:
        for link in set(links) & self._cut:
            self._rule("del", link)
            self._cut.remove(link)

    def heal(self) -> None:
        self.mend(set(self._cut))

    def _rule(self, act: str, link: tuple[Host, Host]) -> None:
        _run("ip", "rule", act, "from", link[0].ip, "to", link[1].ip, "blackhole")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
