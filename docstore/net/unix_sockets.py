"""Sockets in the file system, for clients on the same machine.

Always true: whoever may connect is who may write to the file, from the moment it is there; a file is taken over only
from a server that is gone, and goes with the server that made it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Self

from docstore.net.process import CANNOT_LISTEN, StartError
from docstore.net.sockets import BACKLOG


class BoundUnixSocket:
    """A socket that is bound to a file, which goes when it is closed."""

    def __init__(self, path: Path, permissions: int) -> None:
        """Errors: StartError."""
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._bind(permissions)
        except OSError as error:
            self.socket.close()
            raise StartError(f"cannot listen on {path}: {error.strerror or error}", CANNOT_LISTEN) from error
        found = os.stat(path)
        self._identity = (found.st_dev, found.st_ino)

    def _bind(self, permissions: int) -> None:
        if os.path.lexists(self.path):
            _remove_abandoned(self.path)
        # The file gets at most these permissions when it is made, and exactly these afterwards.
        os.fchmod(self.socket.fileno(), permissions)
        self.socket.bind(str(self.path))
        os.chmod(self.path, permissions)
        self.socket.listen(BACKLOG)
        self.socket.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it, and remove the file unless it has become another server's."""
        self.socket.close()
        try:
            found = os.stat(self.path)
            if (found.st_dev, found.st_ino) == self._identity:
                self.path.unlink()
        except FileNotFoundError:
            return


def _remove_abandoned(path: Path) -> None:
    """Remove the file of a server that is gone. Errors: OSError where it is in use, or is no socket."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise OSError(errno.EEXIST, "a file is there that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise OSError(
        errno.EADDRINUSE,
        "another server is listening there: name another directory with --unixSocketPrefix, or do without such"
        " sockets with --nounixsocket",
    )
