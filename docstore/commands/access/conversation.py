"""The state of a SASL conversation; `conversations` conducts it."""

from __future__ import annotations

from docstore.security.scram import Credential
from docstore.security.scram_server import ServerConversation


class Conversation:
    """A conversation in progress. `credential`: the user's; None: there is no such user, or not for this mechanism.

    `hopeless`: the user exists, or seems to, but authenticates by another mechanism.
    """

    __slots__ = ("credential", "hopeless", "mechanism", "proven", "scram", "short")

    def __init__(
        self, mechanism: str, scram: ServerConversation, credential: Credential | None, *, hopeless: bool, short: bool
    ) -> None:
        """`short`: the client skips the empty message at the end."""
        self.hopeless = hopeless
        self.mechanism = mechanism
        self.scram = scram
        self.credential = credential
        self.short = short
        self.proven = False
