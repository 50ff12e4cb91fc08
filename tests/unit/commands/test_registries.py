"""Cursors, client sessions and operations: who may use what, and when it ends."""

from __future__ import annotations

import pytest

from docstore.commands.cursors import ClientCursor, CursorRegistry
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.sessions.fields import NO_USER_DIGEST
from docstore.commands.sessions.registry import ClientSessions
from docstore.errors import Code, CommandError
from tests.harness.dispatching import ManualClock

A, B = b"a" * 48, b"b" * 48


class Source:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Cursors:
    def __init__(self, numbers: list[int] | None = None) -> None:
        self.clock = ManualClock()
        rng = iter(numbers or range(1, 100))
        self.registry = CursorRegistry(self.clock, lambda: next(rng))

    def open(self, lsid: bytes | None = None, **options: bool) -> tuple[ClientCursor, Source]:
        source = Source()
        return self.registry.register(source, "db.c", lsid=lsid, **options), source


def code(cursors: Cursors, cursor_id: int, namespace: str = "db.c", lsid: bytes | None = None) -> int:
    with pytest.raises(CommandError) as caught:
        cursors.registry.checkout(cursor_id, namespace, lsid)
    return caught.value.code


def test_cursor_ids_are_positive_and_never_given_twice() -> None:
    cursors = Cursors([0, -5, 2**64 - 1, 3, 3, 4])
    ids = [cursors.open()[0].id for _ in range(4)]
    assert ids == [-5 & 0x7FFFFFFFFFFFFFFF, 2**63 - 1, 3, 4]


def test_a_cursor_is_used_by_one_command_at_a_time() -> None:
    cursors = Cursors()
    cursor, _ = cursors.open()
    cursors.registry.checkout(cursor.id, "db.c")
    assert code(cursors, cursor.id) == 12051
    assert cursors.registry.checkin(cursor)
    assert cursors.registry.checkout(cursor.id, "db.c") is cursor


def test_a_cursor_belongs_to_its_collection_and_its_session() -> None:
    cursors = Cursors()
    in_session, free = cursors.open(A)[0], cursors.open()[0]
    assert code(cursors, 12345) == Code.CursorNotFound
    assert code(cursors, free.id, "db.other") == Code.Unauthorized
    assert code(cursors, in_session.id) == 50737
    assert code(cursors, in_session.id, lsid=B) == 50738
    assert code(cursors, free.id, lsid=B) == 50736
    assert cursors.registry.checkout(in_session.id, "db.c", A) is in_session


def test_a_killed_cursor_in_use_ends_when_it_is_given_back() -> None:
    cursors = Cursors()
    cursor, source = cursors.open()
    cursors.registry.checkout(cursor.id, "db.c")
    assert cursors.registry.kill(cursor.id)
    assert source.closed == 0
    assert code(cursors, cursor.id) == Code.CursorNotFound
    assert not cursors.registry.kill(cursor.id)
    assert not cursors.registry.checkin(cursor)
    assert source.closed == 1
    assert len(cursors.registry) == 0


def test_a_source_is_closed_exactly_once() -> None:
    cursors = Cursors()
    cursor, source = cursors.open()
    cursors.registry.close(cursor)
    cursors.registry.close(cursor)
    cursors.registry.kill(cursor.id)
    cursors.registry.close_all()
    assert source.closed == 1


def test_idle_cursors_end_after_ten_minutes_unless_in_use_or_without_timeout() -> None:
    cursors = Cursors()
    idle, used, pinned, forever = (cursors.open(no_timeout=n == 3) for n in range(4))
    cursors.registry.checkout(pinned[0].id, "db.c")
    cursors.clock.advance(400)
    cursors.registry.checkin(cursors.registry.checkout(used[0].id, "db.c"))
    cursors.clock.advance(300)
    assert cursors.registry.expire() == 1
    assert [source.closed for _, source in (idle, used, pinned, forever)] == [1, 0, 0, 0]
    assert cursors.registry.timed_out == 1


def test_the_end_of_a_session_ends_its_cursors() -> None:
    cursors = Cursors()
    of_a, of_b, of_nobody = cursors.open(A), cursors.open(B), cursors.open()
    assert cursors.registry.kill_sessions({A}) == 1
    assert [source.closed for _, source in (of_a, of_b, of_nobody)] == [1, 0, 0]


def test_sessions_end_after_thirty_minutes_without_use() -> None:
    clock = ManualClock()
    sessions = ClientSessions(clock, lambda: b"n" * 16)
    started = sessions.start(b"u" * 32)
    sessions.touch(A)
    clock.advance(29 * 60)
    sessions.touch(A)
    clock.advance(2 * 60)
    assert sessions.expire() == {started}
    assert list(sessions) == [A]
    assert sessions.idle_seconds(A) == 120
    sessions.end({A})
    assert len(sessions) == 0


def test_a_killed_operation_keeps_its_first_reason_and_wakes_its_task_once() -> None:
    woken = []
    registry = OperationRegistry(ManualClock())
    operation = registry.start(None)  # type: ignore[arg-type]
    operation.on_kill = lambda: woken.append(1)
    operation.check()
    assert registry.kill(operation.id)
    operation.kill(CommandError(Code.MaxTimeMSExpired, "late"))
    with pytest.raises(CommandError, match="interrupted"):
        operation.check()
    assert woken == [1]
    registry.finish(operation)
    assert not registry.kill(operation.id)
    assert registry.start(None).id > operation.id  # type: ignore[arg-type]


def test_one_user_does_not_take_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.commands.sessions.registry.MAX_USER_SESSIONS", 3)
    sessions = ClientSessions(ManualClock(), lambda: b"n" * 16)
    lsids = [bytes([number]) * 16 + b"u" * 32 for number in range(4)]
    for lsid in lsids[:3]:
        sessions.touch(lsid)
    with pytest.raises(CommandError) as refusal:
        sessions.touch(lsids[3])
    assert refusal.value.code == Code.TooManyLogicalSessions
    sessions.touch(lsids[0])
    sessions.touch(bytes(16) + b"v" * 32)
    sessions.end({lsids[0], b"gone" * 12})
    sessions.touch(lsids[3])
    for number in range(9):
        sessions.touch(bytes([number]) * 16 + NO_USER_DIGEST)
