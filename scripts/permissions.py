"""Writes docs/permissions.md: which requests users of the built-in roles may send.

With `--compare`, puts every request by every user to what DOCSTORE_REFERENCE starts, a node and a router, and says how
many are decided alike. Exit status 1 where a cell differs that the page does not explain.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from scripts import reference
from tests.differential.permission_page import PAGE, page
from tests.torture.matrix import compare


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--compare", action="store_true", help="compare with a real server instead")
    if not parser.parse_args().compare:
        PAGE.write_text(page())
        return 0
    if not reference.is_there():
        print("DOCSTORE_REFERENCE names no real server", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="docstore-permissions-") as made:
        matrix = compare(Path(made) / "servers")
    print(matrix)
    return 1 if matrix.unexplained or matrix.more or matrix.broken else 0


if __name__ == "__main__":
    sys.exit(main())
