"""The options of a tool for encrypted connections, under the names of MongoDB's tools and of the shell and the
drivers; and the configuration file that keeps passwords out of command lines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml

_FILE = click.Path(exists=True, dir_okay=False)
_OPTIONS = (
    click.option("--tls", "--ssl", "tls", is_flag=True, help="Encrypt connections; the options below mean it too."),
    click.option("--tlsCAFile", "--sslCAFile", "tls_ca_file", type=_FILE, help="Whose certificates are trusted."),
    click.option(
        "--tlsCertificateKeyFile", "--sslPEMKeyFile", "tls_certificate_file", type=_FILE,
        help="Certificate and key to show.",
    ),
    click.option(
        "--tlsCertificateKeyFilePassword", "--sslPEMKeyPassword", "tls_password",
        help="What that key is encrypted with.",
    ),
    click.option("--tlsCRLFile", "--sslCRLFile", "tls_revoked_file", type=_FILE, help="Revoked certificates."),
    click.option("--tlsInsecure", "tls_insecure", is_flag=True, help="Do not look at certificates at all."),
    click.option(
        "--tlsAllowInvalidCertificates", "--sslAllowInvalidCertificates", "tls_any_certificate", is_flag=True,
        help="Take certificates that nobody vouches for.",
    ),
    click.option(
        "--tlsAllowInvalidHostnames", "--sslAllowInvalidHostnames", "tls_any_host", is_flag=True,
        help="Take certificates for other hosts.",
    ),
    click.option(
        "--config", type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="YAML file with uri, password or sslPEMKeyPassword.",
    ),
)  # fmt: skip
_NAMES = {
    "tls": "tls",
    "tls_ca_file": "tlsCAFile",
    "tls_certificate_file": "tlsCertificateKeyFile",
    "tls_password": "tlsCertificateKeyFilePassword",
    "tls_revoked_file": "tlsCRLFile",
    "tls_insecure": "tlsInsecure",
    "tls_any_certificate": "tlsAllowInvalidCertificates",
    "tls_any_host": "tlsAllowInvalidHostnames",
}
_IN_A_FILE = {"uri": "uri", "password": "password", "sslPEMKeyPassword": "tls_password"}


def encryption_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_config(options: dict[str, Any]) -> dict[str, Any]:
    """Merge the options of the file that `config` names. Errors: click.UsageError, also for one given twice."""
    path: Path | None = options["config"]
    merged_options = {name: value for name, value in options.items() if name != "config"}
    if path is None:
        return merged_options
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        # The text of the error may hold a password.
        raise click.UsageError(f"the file {path} of --config is not YAML, or cannot be read") from error
    if not isinstance(content, dict) or content.keys() - _IN_A_FILE.keys():
        raise click.UsageError(f"the file {path} of --config has other fields than {', '.join(_IN_A_FILE)}")
    for name, value in content.items():
        if merged_options[_IN_A_FILE[name]] is not None:
            raise click.UsageError(f"{name} is given twice: by an option and by --config")
        merged_options[_IN_A_FILE[name]] = str(value)
    return merged_options


def encryption_of(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the encryption options and return them as a client's arguments."""
    values = {name: options.pop(name) for name in _NAMES}
    tls_options = {_NAMES[name]: value for name, value in values.items() if value}
    return {"tls": True, **tls_options} if tls_options else {}
