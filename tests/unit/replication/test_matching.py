"""Where two logs meet, on random histories: the search finds what a comparison of whole logs finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docstore.optime import OpTime
from docstore.replication.matching import Verdict, common_point, judge
from tests.unit.replication.members import op


def log_of(steps: list[tuple[int, int]], last: OpTime) -> list[OpTime]:
    """A log that goes on from `last`: each step adds to the term (or not) and to the time."""
    entries = []
    for terms, ticks in steps:
        last = OpTime(last.term + terms, last.timestamp + ticks)
        entries.append(last)
    return entries


STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 2]), st.integers(1, 5)), max_size=12)


@given(shared=STEPS, mine=STEPS, theirs=STEPS, batch=st.integers(1, 4))
def test_the_common_point_is_the_end_of_what_two_logs_share(
    shared: list[tuple[int, int]], mine: list[tuple[int, int]], theirs: list[tuple[int, int]], batch: int
) -> None:
    common = log_of([(0, 1), *shared], OpTime(0, 0))
    # Two primaries that go on from there are never primary of the same term.
    own = common + log_of([(1, 1), *mine] if mine else [], common[-1])
    other = common + log_of([(2, 1), *theirs] if theirs else [], common[-1])
    other = [entry for entry in other if entry not in own or entry in common]
    backwards = list(reversed(other))
    found = None
    for start in range(0, len(backwards), batch):
        found = common_point(backwards[start : start + batch], set(own).__contains__)
        if found is not None:
            break
    assert found == max(set(own) & set(other))


def test_logs_without_a_common_entry_meet_nowhere() -> None:
    assert common_point([op(2, 9), op(0, 1)], {op(1, 5), op(1, 4)}.__contains__) is None


def test_an_own_log_that_the_source_goes_on_from_is_fetched() -> None:
    assert judge(op(1, 5), op(1, 5), source_oldest=op(1, 1), source_last=op(1, 9)) is Verdict.FETCH


def test_a_source_that_is_behind_is_left() -> None:
    assert judge(op(1, 5), None, source_oldest=op(1, 1), source_last=op(1, 4)) is Verdict.OTHER_SOURCE


def test_another_entry_in_the_last_ones_place_means_rollback() -> None:
    assert judge(op(1, 5), op(2, 5), source_oldest=op(1, 1), source_last=op(2, 9)) is Verdict.ROLL_BACK


def test_a_shorter_log_of_a_later_term_means_rollback() -> None:
    """The new primary's clock was behind: nothing stands at or after our last timestamp, yet its log is later."""
    assert judge(op(1, 50), None, source_oldest=op(1, 1), source_last=op(2, 40)) is Verdict.ROLL_BACK


def test_a_source_that_has_dropped_what_comes_next_leaves_us_too_stale() -> None:
    assert judge(op(1, 5), op(1, 9), source_oldest=op(1, 9), source_last=op(1, 20)) is Verdict.TOO_STALE


def test_a_source_that_was_behind_and_has_caught_up_is_asked_again() -> None:
    """It had nothing at or after our last entry, and has it now: that is no reason to roll back."""
    assert judge(op(1, 5), None, source_oldest=op(1, 1), source_last=op(1, 5)) is Verdict.ASK_AGAIN
    assert judge(op(1, 5), None, source_oldest=op(1, 1), source_last=op(2, 9)) is Verdict.ASK_AGAIN
