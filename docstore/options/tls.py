"""Checks of TLS options in combination."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstore.options.values import TlsMode, TlsOptions

PASSWORDS = ("certificateKeyFilePassword", "clusterPassword")
"""Options never shown, by their names below `net.tls`."""
_PROTOCOLS = ("TLS1_0", "TLS1_1", "TLS1_2", "TLS1_3")
_SPOKEN = ("TLS1_2", "TLS1_3")


def tls_options(options: Mapping[str, Any]) -> TlsOptions:
    """Return the TLS options. Errors: ValueError with a sentence for an invalid combination."""
    settings = {key.removeprefix("net.tls."): value for key, value in options.items() if key.startswith("net.tls.")}
    mode = _mode(settings.pop("mode", "disabled"))
    if mode is TlsMode.DISABLED:
        if settings:
            raise ValueError("need to enable TLS via the tlsMode flag when using TLS configuration parameters")
        return TlsOptions()
    _check(settings)
    return TlsOptions(
        mode=mode,
        certificate_key_file=_path(settings, "certificateKeyFile"),
        password=settings.get("certificateKeyFilePassword"),
        cluster_file=_path(settings, "clusterFile"),
        cluster_password=settings.get("clusterPassword"),
        ca_file=_path(settings, "CAFile"),
        cluster_ca_file=_path(settings, "clusterCAFile"),
        crl_file=_path(settings, "CRLFile"),
        disabled_protocols=_protocols(settings.get("disabledProtocols")),
        log_versions=tuple(_dotted(name) for name in _names("tlsLogVersions", settings.get("logVersions"))),
        fips=bool(settings.get("FIPSMode")),
        without_certificates=bool(settings.get("allowConnectionsWithoutCertificates")),
        invalid_certificates=bool(settings.get("allowInvalidCertificates")),
        invalid_hostnames=bool(settings.get("allowInvalidHostnames")),
    )


def _mode(text: str) -> TlsMode:
    try:
        return TlsMode(text)
    except ValueError:
        names = ", ".join(mode.value for mode in TlsMode)
        raise ValueError(f"unsupported value for tlsMode {text}: it is one of {names}") from None


def _check(settings: Mapping[str, Any]) -> None:
    if "certificateKeyFile" not in settings:
        raise ValueError("need tlsCertificateKeyFile when TLS is enabled")
    if "CRLFile" in settings and "CAFile" not in settings:
        raise ValueError("need tlsCAFile with tlsCRLFile")


def _path(settings: Mapping[str, Any], name: str) -> Path | None:
    value = settings.get(name)
    return None if value is None else Path(value)


def _names(option: str, text: str | None) -> tuple[str, ...]:
    """Return a list of protocols. Errors: ValueError."""
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in _PROTOCOLS:
            raise ValueError(f"Unrecognized {option} '{name}': it is one of {', '.join(_PROTOCOLS)}")
    return names


def _dotted(name: str) -> str:
    return name.removeprefix("TLS").replace("_", ".")


def _protocols(text: str | None) -> tuple[str, ...]:
    names = _names("disabledProtocols", text)
    if set(_SPOKEN) <= set(names):
        raise ValueError("--tlsDisabledProtocols leaves no protocol: TLS1_2 and TLS1_3 are the ones that there are")
    return tuple(name for name in _SPOKEN if name in names)
