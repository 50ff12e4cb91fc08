"""What a server refuses of a batch: what is there already is passed over, anything else ends the work."""

from __future__ import annotations

import pytest

from docstore.tools.insertion import Refused, refusals
from docstore.tools.terminal import Terminal


def details(*codes: int) -> dict[str, object]:
    errors = [{"index": at, "code": code, "errmsg": f"code {code}"} for at, code in enumerate(codes)]
    return {"nInserted": 3, "writeErrors": errors}


def test_what_is_there_already_or_invalid_is_counted() -> None:
    counts = refusals(details(11000, 121), Terminal(quiet=True), in_order=False)
    assert (counts.done, counts.failed) == (3, 2)


@pytest.mark.parametrize("code", [14031, 91, 10107, 11602, 50])
def test_a_refusal_that_says_nothing_of_the_document_ends_the_work(code: int) -> None:
    with pytest.raises(Refused, match=f"code {code}") as refused:
        refusals(details(11000, code), Terminal(quiet=True), in_order=False)
    assert (refused.value.counts.done, refused.value.counts.failed) == (3, 2)
