"""Cursors of the router over those that shards have opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.net.scheduling.scheduler import FIRST_STEP_SECONDS
from mongos.limits import MAX_JOINED_BYTES
from mongos.merge.batches import First, batch_comes_last, first_reply, first_reply_at_hand
from mongos.merge.merged import Finish, MergedCursor, Shape
from mongos.router import router_of
from mongos.routing.requests import ShardReply


class Opening:
    """The opening of one cursor over the shards' answers: in the step of the last answer, else in a task that goes on
    from there.

    `make` makes the cursor of the answers.
    """

    def __init__(
        self, context: Context, make: Callable[[Sequence[ShardReply]], MergedCursor], first: First | None = None
    ) -> None:
        self._context = context
        self._make = make
        self._first = First() if first is None else first
        self._cursor: MergedCursor | None = None
        self._error: CommandError | None = None

    def at_hand(self, answers: Sequence[ShardReply]) -> bytes | None:
        """Return the reply if it can be made in a step; else None. Errors are left to the task."""
        if sum(len(answer.body) for answer in answers) > MAX_JOINED_BYTES:
            return None
        context = self._context
        try:
            cursor = self._cursor = self._make(answers)
            # Without stages the work is bounded by the bytes.
            until = router_of(context).clock() + FIRST_STEP_SECONDS if cursor.has_stages else inf
            return first_reply_at_hand(context, cursor, self._as_answered(answers), until)
        except CommandError as error:
            self._error = error
            return None

    def cursor(self, answers: Sequence[ShardReply]) -> MergedCursor:
        """Return the cursor, which may have begun. Errors: those of its first step."""
        if self._error is not None:
            raise self._error
        return self._make(answers) if self._cursor is None else self._cursor

    async def reply(self, answers: Sequence[ShardReply]) -> bytes:
        """Return the reply. Errors: those of the cursor."""
        return await first_reply(self._context, self.cursor(answers), self._as_answered(answers))

    def _as_answered(self, answers: Sequence[ShardReply]) -> First:
        """Return the first batch, in the field order of the only answer."""
        first = self._first
        if first.catalog or len(answers) != 1 or not batch_comes_last(answers[0].body):
            return first
        return first._replace(catalog=True)


def merged_cursor(
    context: Context,
    answers: Sequence[ShardReply],
    shape: Shape | None = None,
    *,
    asked_size: int | None = None,
    partial: bool | None = None,
    finish: Callable[[], Finish] | None = None,
) -> MergedCursor:
    """Return a cursor over the shards' answers.

    `asked_size`: the number of documents per shard batch. `partial`: as in `MergedCursor`. `finish`: makes the router's
    half; if that fails, the shards' cursors are closed.
    """
    router = router_of(context)
    remotes = router.remotes(context, answers, asked_size)
    try:
        made = None if finish is None else finish()
    except BaseException:
        router.discard(remotes)
        raise
    return MergedCursor(
        remotes, shape or Shape(), router.discard, scheduler=router.scheduler, finish=made, partial=partial
    )
