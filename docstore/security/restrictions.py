"""`authenticationRestrictions`: the addresses from which users may log in, and the server addresses they may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Self

from docstore.bson.allowance import spend

Network = IPv4Network | IPv6Network
_PER_ADDRESS = 256
"""Work units charged for an address."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """Networks of the client and of the server; None allows any."""

    client: tuple[Network, ...] | None
    server: tuple[Network, ...] | None

    @classmethod
    def parsed(cls, document: Mapping[str, Any]) -> Self:
        """Parse a restriction. Errors: ValueError for an invalid address."""

        def networks(field: str) -> tuple[Network, ...] | None:
            texts = document.get(field)
            return None if texts is None else tuple(map(_network, texts))

        return cls(networks("clientSource"), networks("serverAddress"))

    def document(self) -> dict[str, list[str]]:
        sides = (("clientSource", self.client), ("serverAddress", self.server))
        return {name: list(map(str, networks)) for name, networks in sides if networks is not None}

    def admits(self, client: str, server: str) -> bool:
        """True if the addresses are allowed. `client`, `server`: IP addresses as text, empty if there is none."""
        return _is_in_networks(client, self.client) and _is_in_networks(server, self.server)


def _network(text: str) -> Network:
    spend(_PER_ADDRESS)
    return ip_network(text, strict=False)


def _is_in_networks(address: str, networks: tuple[Network, ...] | None) -> bool:
    if networks is None:
        return True
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return any(parsed in network for network in networks)


def parsed_restrictions(documents: Iterable[Mapping[str, Any]]) -> tuple[Restriction, ...]:
    """Errors: ValueError."""
    return tuple(map(Restriction.parsed, documents))


def admitted(lists: Sequence[Sequence[Restriction]], client: str, server: str) -> bool:
    """True if each of the lists, of a user and of its roles, has a restriction that admits the client."""
    return all(
        any(restriction.admits(client, server) for restriction in restrictions)
        for restrictions in lists
        if restrictions
    )
