"""dbStats: counts and sizes of one database."""

from __future__ import annotations

from docstore.bson.walk import BOOL, NULL, STRING, Value
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import DB_STATS
from docstore.commands.values import NUMBERS, integer_of, truth_of
from docstore.errors import NO_CODE, Code, CommandError
from docstore.node.upkeep.collection_stats import database_stats

_INT32_RANGE = 1 << 32


async def run(context: Context, arguments: Arguments) -> Result:
    if arguments.value is not None and arguments.value[0] == STRING:
        raise CommandError(Code.InvalidNamespace, "dbStats is about the database that it is sent to: it takes no name")
    free = arguments["freeStorage"]
    return await database_stats(context, _scale(arguments["scale"]), free=_truth_of(free))


def _truth_of(value: Value | None) -> bool:
    """Return the truth value of an optional argument of any type; False if absent or null."""
    if value is None or value[0] == NULL:
        return False
    return truth_of(*value) if value[0] in (*NUMBERS, BOOL) else True


def _scale(value: Value | None) -> int:
    """Return the bytes per unit. Errors (without code): not a number, or the lower 32 bits are not positive."""
    if value is None or value[0] == NULL:
        return 1
    if value[0] not in NUMBERS:
        raise CommandError(NO_CODE, "scale has to be a number > 0")
    scale = (integer_of(*value) + _INT32_RANGE // 2) % _INT32_RANGE - _INT32_RANGE // 2
    if scale <= 0:
        raise CommandError(NO_CODE, "scale has to be > 0")
    return scale


COMMAND = DB_STATS.command(run)
