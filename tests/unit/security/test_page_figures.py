"""The figures of docs/security.md are those of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.commands.access.attempts import DEFAULT_ALLOWED, MAX_DELAY_SECONDS, PER_SECOND
from docstore.commands.audit.events import EVENTS
from docstore.commands.sessions.registry import MAX_SESSIONS, MAX_USER_SESSIONS
from docstore.js.workers import CALL_SECONDS
from docstore.net.access.file_limits import RESERVED_FILES
from docstore.net.guarded_connection import UNPROVEN_BYTES
from docstore.net.tls.certificates import WARNING_DAYS
from docstore.net.tls.stream import HANDSHAKE_SECONDS
from docstore.security.cluster_keys import LEAST_CHARACTERS, MOST_CHARACTERS

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


@pytest.mark.parametrize(
    "sentence",
    [
        f"After {DEFAULT_ALLOWED} failed logins",
        f"{1 / PER_SECOND:g} s longer for each failure, {MAX_DELAY_SECONDS:g} s at most; {PER_SECOND:g} failures are",
        f"The file holds one key, {LEAST_CHARACTERS} to {MOST_CHARACTERS} characters",
        f"A handshake has {HANDSHAKE_SECONDS:g} seconds.",
        f"a certificate that ends within {WARNING_DAYS} days",
        f"to what leaves {RESERVED_FILES:,} of the descriptors",
        f"(half of them where there are less than {2 * RESERVED_FILES:,})",
        f"at most {MAX_USER_SESSIONS:,} sessions on a process, and all users together {MAX_SESSIONS:,}.",
        f"may send messages of up to {UNPROVEN_BYTES // 1024} KiB",
    ],
)
def test_a_figure_is_that_of_the_program(sentence: str) -> None:
    assert sentence in " ".join(PAGE.read_text().split())


def test_a_script_has_the_minute_that_the_page_says() -> None:
    assert CALL_SECONDS == 60


def test_the_commands_whose_messages_the_page_names_are_audited() -> None:
    assert {"enableSharding", "shardCollection", "addShard", "removeShard", "getClusterParameter"} <= set(EVENTS)
