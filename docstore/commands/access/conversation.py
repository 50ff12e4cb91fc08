"""The state of a conversation by which a client authenticates; `conversations` conducts it."""

from __future__ import annotations

from docstore.security.scram import Credential
from docstore.security.scram_server import ServerConversation


class Conversation:
    """A conversation under way. `credential`: what the user is known by; None: there is no user of that name, or none
    who authenticates so. `hopeless`: there is one, or seems to be, who authenticates otherwise.
    """

    __slots__ = ("credential", "hopeless", "mechanism", "proven", "scram", "short")

    def __init__(
        self, mechanism: str, scram: ServerConversation, credential: Credential | None, *, hopeless: bool, short: bool
    ) -> None:
        """`short`: the client wants no empty message at the end."""
        self.hopeless = hopeless
        self.mechanism = mechanism
        self.scram = scram
        self.credential = credential
        self.short = short
        self.proven = False
