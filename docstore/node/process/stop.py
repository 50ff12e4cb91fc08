"""`--shutdown`: ask the server of a data directory to exit, and wait for it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from docstore.storage.lock import owner_of

_LOOK_SECONDS = 0.05


def stop_server(dbpath: Path) -> NoReturn:
    """Stop the server and exit with code 0; with 1 if there is none, or this user may not stop it."""
    owner = owner_of(dbpath)
    if owner is None:
        sys.exit(f"There doesn't seem to be a server running with dbpath: {dbpath}")
    print(f"killing process with pid: {owner}", flush=True)
    try:
        os.kill(owner, signal.SIGTERM)
    except PermissionError:
        sys.exit(f"not allowed to stop process {owner}")
    while owner_of(dbpath) == owner:
        time.sleep(_LOOK_SECONDS)
    sys.exit(0)
