"""Files of documents, printed."""

from __future__ import annotations

from bson import ObjectId, encode
from bson.regex import Regex
from click.testing import CliRunner

from docstore.tools.bsondump import main

BROKEN = encode({"_id": 2, "text": "abc"}).replace(b"abc", b"a\xffc")


def test_how_documents_lie_in_their_bytes() -> None:
    document = encode({"_id": ObjectId(), "in": {"a": [1]}, "form": Regex("x", "i")})
    shown = CliRunner().invoke(main, ["--type", "debug"], input=document).stdout
    assert shown.expandtabs(1).splitlines() == [
        "--- new object ---", " size : 56",
        "  _id", "   type:    7 size: 17",
        "  in", "   type:    3 size: 24",
        "   --- new object ---", "    size : 20",
        "     a", "      type:    4 size: 15",
        "      --- new object ---", "       size : 12",
        "        0", "         type:   16 size: 7",
        "  form", "   type:   11 size: 10",
    ]  # fmt: skip


def test_malformed_documents_are_left_out_where_that_is_asked_for() -> None:
    content = encode({"_id": 1}) + BROKEN + encode({"_id": 3})
    ended = CliRunner().invoke(main, input=content)
    assert (ended.exit_code, len(ended.stdout.splitlines())) == (1, 1)
    checked = CliRunner().invoke(main, ["--objcheck"], input=content)
    assert (checked.exit_code, len(checked.stdout.splitlines())) == (1, 2)
    assert "document 2 is malformed" in checked.stderr
    assert "2 objects found" in checked.stderr


def test_options_that_do_not_go_together() -> None:
    assert CliRunner().invoke(main, ["--pretty", "--type", "debug"], input=b"").exit_code == 1
