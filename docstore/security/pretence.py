"""Whom an unknown user seems to be: one of the users that there are, chosen by the name.

A user is told by the mechanisms and the iteration counts of its credentials, so those of unknown names are distributed
as those of users: each name is given those of the user that follows it on a ring of keyed hashes. Always true: a name
keeps its answer while that user stays as it is; without the secret nobody can tell where on the ring a name is.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from docstore.security.names import UserName
from docstore.security.scram import MECHANISMS

Profile = Mapping[str, int]
"""The iteration counts of credentials, by mechanism."""


class ProfileRing:
    """`users`: the key and the credentials, as documents have them, of each user."""

    def __init__(self, secret: bytes, users: Iterable[tuple[str, Any]]) -> None:
        self._secret = secret
        profiles = ((self._place(key), profile_of(credentials)) for key, credentials in users)
        ring = sorted((place, tuple(profile.items())) for place, profile in profiles if profile)
        self._places = [place for place, _ in ring]
        self._profiles = [dict(profile) for _, profile in ring]

    def profile(self, name: UserName) -> Profile:
        """Return what a name that is no user's seems to have; nothing where there are no users."""
        if not self._profiles:
            return {}
        return self._profiles[bisect_left(self._places, self._place(name.key)) % len(self._profiles)]

    def _place(self, key: str) -> bytes:
        return hmac.digest(self._secret, f"ring {key}".encode(), "sha256")


def profile_of(credentials: Any) -> dict[str, int]:
    """Return the iteration counts in the `credentials` of a document; without those that are none."""
    if not isinstance(credentials, Mapping):
        return {}
    counts = {mechanism: credentials[mechanism] for mechanism in MECHANISMS if mechanism in credentials}
    return {
        mechanism: fields["iterationCount"]
        for mechanism, fields in counts.items()
        if isinstance(fields, Mapping) and isinstance(fields.get("iterationCount"), int)
    }
