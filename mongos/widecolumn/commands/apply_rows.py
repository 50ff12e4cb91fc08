"""_wcApply: mutations of rows that this router has kept as hints."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import APPLY_ROWS
from docstore.errors import Code, CommandError
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.errors import family_absent
from docstore.widecolumn.model.internal_requests import bytes_of, writes_of
from mongos.widecolumn.executor import RouterExecutor
from mongos.widecolumn.shard_requests import SchemaIsStale

_ATTEMPTS = 3


async def run(context: Context, args: Arguments) -> Result:
    """Errors: NamespaceNotFound where the column family is another one than when they were made."""
    writes = writes_of(args["writes"], context.db, args.value)
    identity = bytes_of(args["familyId"], "familyId")
    executor = RouterExecutor(context, fresh=True)
    for _ in range(_ATTEMPTS):
        found = await executor.family(context.db, args.value)
        if found is None or found.id.bytes != identity:
            raise family_absent(args.value)
        try:
            warnings = await executor.apply(writes, level_named(args["consistency"]))
        except SchemaIsStale:
            executor.again()
        else:
            return {"n": len(writes), "warnings": warnings}
    raise CommandError(Code.StaleConfig, "the definitions that the mutations are about keep changing")


COMMAND = APPLY_ROWS.command(run)
