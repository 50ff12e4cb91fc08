"""Profiles for unknown user names, so that a login does not tell which users exist.

A user shows in the mechanisms and the iteration counts of its credentials. An unknown name gets the profile of an
existing user, the next one on a ring of keyed hashes, so profiles are distributed as among users. Invariants:

- a name keeps its profile while that user stays unchanged;
- without the secret nobody can find a name's position on the ring.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from docstore.security.names import EXTERNAL, UserName
from docstore.security.scram import MECHANISMS

Profile = Mapping[str, int]
"""The iteration counts of credentials, by mechanism."""


class ProfileRing:
    """`users`: the key and the credentials, as documents have them, of each user."""

    def __init__(self, secret: bytes, users: Iterable[tuple[str, Any]]) -> None:
        self._secret = secret
        profiles = ((self._position_of(key), profile_of(credentials)) for key, credentials in users)
        ring = sorted((position, tuple(profile.items())) for position, profile in profiles if profile)
        self._places = [position for position, _ in ring]
        self._profiles = [dict(profile) for _, profile in ring]

    def profile(self, name: UserName) -> Profile:
        """Return the profile for an unknown name; empty if there are no users, and as for those with certificates."""
        if not self._profiles or name.db == EXTERNAL:
            return {}
        return self._profiles[bisect_left(self._places, self._position_of(name.key)) % len(self._profiles)]

    def _position_of(self, key: str) -> bytes:
        return hmac.digest(self._secret, f"ring {key}".encode(), "sha256")


def profile_of(credentials: Any) -> dict[str, int]:
    """Return the iteration counts in the `credentials` of a document; skips invalid ones."""
    if not isinstance(credentials, Mapping):
        return {}
    counts = {mechanism: credentials[mechanism] for mechanism in MECHANISMS if mechanism in credentials}
    return {
        mechanism: fields["iterationCount"]
        for mechanism, fields in counts.items()
        if isinstance(fields, Mapping) and isinstance(fields.get("iterationCount"), int)
    }
