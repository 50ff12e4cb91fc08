"""TLS contexts from certificate files, and readable reasons of failures.

Invariants: a context requires at least TLS 1.2; the error for an unusable file names the file.
"""

from __future__ import annotations

import ssl
from os import PathLike

Place = str | PathLike[str]


class Unusable(Exception):
    """Files that cannot be used; the message says which and why."""


GROUP = "prime256v1"
"""The group of key exchange: the one that everybody has."""


def new_context(protocol: int) -> ssl.SSLContext:
    """Return a context without certificates. `protocol`: `ssl.PROTOCOL_TLS_CLIENT` or `PROTOCOL_TLS_SERVER`."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Among the others are some that cost the server a tenth of a second, and a client nothing.
    context.set_ecdh_curve(GROUP)
    return context


def trust(context: ssl.SSLContext, authorities: Place | None, revoked: Place | None) -> None:
    """Trust the certificates of a file, except those that a revocation list names. Errors: Unusable."""
    for path, kind in ((authorities, "authorities"), (revoked, "revoked certificates")):
        if path is None:
            continue
        try:
            context.load_verify_locations(path)
        except OSError as error:
            raise Unusable(f"cannot use the {kind} in {path}: {_reason_of_file(error)}") from None
    if revoked is not None:
        if not context.cert_store_stats()["crl"]:
            raise Unusable(f"cannot use the revoked certificates in {revoked}: no list of them is there")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def verify_servers(context: ssl.SSLContext, *, certificates: bool, hostnames: bool) -> None:
    """Set the checks of servers' certificates: their validity, and their host names."""
    context.check_hostname = certificates and hostnames
    context.verify_mode = ssl.CERT_REQUIRED if certificates else ssl.CERT_NONE


def show(context: ssl.SSLContext, path: Place, password: str | None) -> None:
    """Use the certificate of a file, which also has its key. Errors: Unusable."""

    def asked() -> str:
        raise ValueError("its key is encrypted, and no password is given")

    try:
        context.load_cert_chain(path, password=asked if password is None else password)
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot use the certificate and key in {path}: {_reason_of_file(error)}") from None


def reason_of(error: Exception) -> str:
    """Return the reason why a handshake or a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _reason_of_file(error: Exception) -> str:
    return "it is not PEM" if isinstance(error, ssl.SSLError) and not error.reason else reason_of(error)
