"""Admission of requests: protection against other origins' pages and rebound host names.

A page of another origin can make a browser send requests here, with the login's cookie. Invariants:

- a POST takes effect only if such a page cannot have sent it. It needs a header and a content type that require a
  CORS permission, which is never given, and must not declare another origin;
- a request whose Host is a name that others could have pointed at this machine is refused, even without login.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

MARK = "X-Docstore-Console"
"""The header of requests that the page makes; it has the key of the login where there is one."""
_SAME = ("same-origin", "none")
_TYPES = ("application/json", "application/bson")
"""Content types that neither a form nor a script without permission can send."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; worker-src 'self'; "
        "require-trusted-types-for 'script'; trusted-types docstore-shell"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every answer. Nothing is loaded from elsewhere, the page has no inline script, and text is never
markup.
"""
SHELL_POLICY = "default-src 'none'; script-src 'self' 'unsafe-eval' blob:; connect-src 'self'"
"""The policy of the worker that runs the shell's input: it has no page, and reaches this server alone."""


class Refused(Exception):
    """A request that is not answered; `status`: of HTTP."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """`names`: by which this machine may be called, besides those that every machine has."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        own = ("localhost", socket.gethostname())
        self._names = frozenset(_plain(name) for name in (*own, *names))

    def check_host(self, host: str | None) -> None:
        """Errors: Refused for a Host that is no address and none of the names."""
        name = _name_of(host or "")
        if name is None or not (_is_address(name) or name in self._names):
            raise Refused(421, "this is no name of this server: call it by its address, or see --httpHosts")

    def check_post(self, headers: Mapping[str, str]) -> None:
        """Raise Refused for a request that a page of another origin may have sent."""
        if headers.get("Content-Type", "").partition(";")[0].strip().lower() not in _TYPES:
            raise Refused(415, f"the body has to be {' or '.join(_TYPES)}")
        if MARK not in headers:
            raise Refused(403, f"the header {MARK} is missing")
        if headers.get("Sec-Fetch-Site", "same-origin") not in _SAME:
            raise Refused(403, "the request comes from another site")
        origin = headers.get("Origin")
        if origin is not None and _host_of(origin) != headers.get("Host", "").lower():
            raise Refused(403, "the request comes from another origin")


def _host_of(origin: str) -> str | None:
    """Return the host and port of an Origin header; None if it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(host: str) -> str | None:
    """Return the name or address in a Host header; None if it is malformed."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        has_valid_tail = port[:1] in ("", ":") and bool(bracket)
        return name if has_valid_tail and port[1:].isdecimal() == bool(port[1:]) else None
    name, colon, port = host.partition(":")
    if colon and not port.isdecimal():
        return None
    return _plain(name) or None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")
