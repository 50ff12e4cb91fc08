"""Authentication among the processes of a cluster, as `__system@local`: by a key file, by certificates, or both.

A process accepts either of two keys and, if the first is refused, tries the second. Keys can thus be replaced by
restarting the processes one at a time. Invariant: keys are never shown.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import pbkdf2_hmac
from typing import Any

import yaml

from docstore.options.values import ClusterAuthMode
from docstore.security.builtin_roles import privileges_of
from docstore.security.names import SYSTEM, RoleName
from docstore.security.scram import (
    DEFAULT_ITERATIONS,
    SHA_256,
    ClientKeys,
    Credential,
    client_keys,
    secret_of,
)
from docstore.security.time_proofs import TimeProofs
from docstore.security.users import User

LEAST_CHARACTERS = 6
MOST_CHARACTERS = 1024
MOST_KEYS = 2
MECHANISM = SHA_256
"""The one by which processes authenticate to each other."""
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
_DERIVED = 256
_STRETCHING = b"what the processes of a cluster have in common"


class BadKeys(ValueError):
    """A text that holds no keys; the message says why and shows nothing of it."""


def parse_keys(text: str) -> tuple[str, ...]:
    """The keys of a key file: its whole text is one, or it is a YAML list of one or two. White space counts for
    nothing. Errors: BadKeys.
    """
    compact_text = "".join(text.split())
    try:
        # Without types: a key of nothing but digits is no number.
        content: Any = (
            compact_text if compact_text and _BASE64.issuperset(compact_text) else yaml.load(text, yaml.BaseLoader)
        )
    except yaml.YAMLError:
        raise BadKeys("it is not YAML") from None
    listed = content if isinstance(content, list) else [content]
    if not listed or not all(isinstance(entry, str) for entry in listed) or content == "":
        raise BadKeys("it must hold a key or a list of keys")
    if len(listed) > MOST_KEYS:
        raise BadKeys(f"it holds {len(listed)} keys, but at most {MOST_KEYS} are supported")
    keys = tuple("".join(entry.split()) for entry in listed)
    for key in keys:
        if not _BASE64.issuperset(key):
            raise BadKeys("a key has a character that is none of base64")
        if not LEAST_CHARACTERS <= len(key) <= MOST_CHARACTERS:
            raise BadKeys(
                f"a key has {len(key)} characters, and must have from {LEAST_CHARACTERS} to {MOST_CHARACTERS}"
            )
    return keys


class ClusterKeys:
    """The keys of a process, none if only certificates count.

    `mode` may advance while the process runs. `salt`: random bytes, as many as `MECHANISM` takes. `lenient`: talk
    unauthenticated to a process that refuses this one as a member of the cluster.
    """

    def __init__(
        self,
        keys: Sequence[str],
        salt: bytes,
        *,
        lenient: bool = False,
        iterations: int = DEFAULT_ITERATIONS[SHA_256],
        mode: ClusterAuthMode = ClusterAuthMode.KEY_FILE,
    ) -> None:
        """Takes as long as `client_keys` for each key."""
        assert keys or mode is ClusterAuthMode.X509, "there is a key"
        self.mode = mode
        self.lenient = lenient
        self._secrets = tuple(secret_of(MECHANISM, SYSTEM.user, key) for key in keys)
        # Anybody may see values derived from the keys: guessing a short key must take long.
        stretched = [pbkdf2_hmac("sha256", secret, _STRETCHING, iterations) for secret in self._secrets]
        self.pretence = hmac.digest(stretched[0], b"users that do not exist", "sha512") if keys else None
        """A secret of all holders of the key, from which the profiles of unknown users are derived."""
        self.proofs = TimeProofs(stretched) if keys else None
        """The signatures of cluster times. Processes with certificates alone have no common secret for them."""
        self._derived: OrderedDict[tuple[int, bytes, int], ClientKeys] = OrderedDict()
        self.credentials = tuple(
            Credential.derived(MECHANISM, system_secret, salt, iterations) for system_secret in self._secrets
        )
        """The credentials with which a client may prove membership, one for each key: all have one salt and number of
        iterations.
        """
        self.user = User(
            name=SYSTEM,
            credentials={credential.mechanism: credential for credential in self.credentials[:1]},
            roles=(),
            privileges=privileges_of(RoleName("__system", "admin")),
        )
        """The user of authenticated members, who has all privileges."""

    def change_mode(self, value: object) -> None:
        """Advance to the next mode, towards certificates. Errors: ValueError for any other."""
        modes = list(ClusterAuthMode)
        following = modes[modes.index(self.mode) + 1 :][:1]
        if value not in [mode.value for mode in following]:
            raise ValueError(f"attempt to change from {self.mode.value} to {value}")
        self.mode = following[0]

    def __len__(self) -> int:
        return len(self._secrets)

    def cached(self, index: int, salt: bytes, iterations: int) -> ClientKeys | None:
        """Return the cached result of `derive`; None if there is none."""
        keys = self._derived.get((index, salt, iterations))
        if keys is not None:
            self._derived.move_to_end((index, salt, iterations))
        return keys

    def derive(self, index: int, salt: bytes, iterations: int) -> ClientKeys:
        """Return the keys that prove the cluster key to a process with this salt and iterations. Takes milliseconds."""
        keys = self.cached(index, salt, iterations)
        if keys is None:
            keys = client_keys(MECHANISM, self._secrets[index], salt, iterations)
            self._derived[index, salt, iterations] = keys
            while len(self._derived) > _DERIVED:
                self._derived.popitem(last=False)
        return keys
