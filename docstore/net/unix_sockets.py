"""Unix domain sockets, for clients on the same machine.

- The file's permissions control who may connect, from the moment it exists.
- A file is taken over only from a server that is gone, and removed with the server that created it.
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
    """A socket bound to a file, which is removed at the close."""

    def __init__(self, path: Path, permissions: int) -> None:
        """Errors: StartError if the file cannot be bound."""
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._bind(permissions)
        except OSError as error:
            self.socket.close()
            raise StartError(f"cannot listen on {path}: {error.strerror or error}", CANNOT_LISTEN) from error
        status = os.stat(path)
        self._identity = (status.st_dev, status.st_ino)

    def _bind(self, permissions: int) -> None:
        if os.path.lexists(self.path):
            _remove_abandoned(self.path)
        # The file is created with at most these permissions, and has exactly these from here on.
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
        """Close the socket; remove the file unless another server has taken it over."""
        self.socket.close()
        try:
            status = os.stat(self.path)
            if (status.st_dev, status.st_ino) == self._identity:
                self.path.unlink()
        except FileNotFoundError:
            return


def _remove_abandoned(path: Path) -> None:
    """Remove the file of a server that is gone. Errors: OSError if it is in use, or is no socket."""
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
