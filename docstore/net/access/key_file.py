"""The key file of a process, read at startup."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from docstore.net.process import StartError
from docstore.options.values import SecurityOptions
from docstore.security.cluster_keys import MECHANISM, BadKeys, ClusterKeys, parse_keys
from docstore.security.scram import SALT_BYTES

MAX_KEY_FILE_BYTES = 1 << 20
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_EXIT_CODE = 1


def cluster_keys(options: SecurityOptions) -> ClusterKeys | None:
    """Return the keys for authentication between cluster processes; None if there are none. Errors: StartError."""
    if not options.knows_processes:
        return None
    path = options.key_file
    keys: tuple[str, ...] = ()
    if path is not None:
        try:
            keys = parse_keys(_private_text(path))
        except BadKeys as error:
            raise StartError(f"the key file {path} is not usable: {error}", _EXIT_CODE) from None
    salt = secrets.token_bytes(SALT_BYTES[MECHANISM])
    return ClusterKeys(keys, salt, lenient=options.transition, mode=options.cluster_mode)


def _private_text(path: Path) -> str:
    """Return the text of a file that only its owner may read or write. Errors: StartError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _OF_OTHERS:
                raise StartError(
                    f"permissions on {path} are too open: a key file must be its owner's alone (chmod 600)", _EXIT_CODE
                )
            content = file.read(MAX_KEY_FILE_BYTES)
        return content.decode()
    except OSError as error:
        raise StartError(f"cannot read the key file {path}: {error.strerror}", _EXIT_CODE) from None
    except UnicodeDecodeError:
        raise StartError(f"the key file {path} is not usable: it is no text", _EXIT_CODE) from None
