"""Writes docs/permissions.md: which requests users of the built-in roles may send."""

from __future__ import annotations

from tests.differential.permission_page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page())
