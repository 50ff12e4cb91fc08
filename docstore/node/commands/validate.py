"""validate: check a collection's documents, indexes and counters against each other; nothing is repaired.

The check reads a snapshot, in slices: other requests continue, regardless of `full` and `background`.
"""

from __future__ import annotations

from typing import Any

from docstore.collection.catalog.views import check_no_view
from docstore.collection.validate import Validation
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import VALIDATE
from docstore.errors import Code, CommandError
from docstore.node.entry import enter_read
from docstore.node.node import node_of
from docstore.node.slices import finish_steps, until_done
from docstore.node.upkeep.collection_stats import number

_OPTIONS = ("full", "background", "metadata", "enforceFastCount", "repair")
_FINDINGS: dict[str, Any] = {
    "valid": True,
    "repaired": False,
    "warnings": [],
    "errors": [],
    "extraIndexEntries": [],
    "missingIndexEntries": [],
    "corruptRecords": [],
}


async def run(context: Context, arguments: Arguments) -> Result:
    check_options(arguments)
    node = node_of(context)
    await finish_steps(context, enter_read(context))
    store = node.store
    collection = store.collection(context.namespace)
    if collection is None:
        check_no_view(store, context.namespace)
        raise CommandError(Code.NamespaceNotFound, f"Collection '{context.namespace}' does not exist to validate.")
    if arguments["metadata"]:
        return {"ns": context.namespace, **_FINDINGS}
    snapshot = node.engine.snapshot()
    try:
        validation = Validation(collection, snapshot, node.store.mode)
        await finish_steps(context, until_done(node, validation.step))
    finally:
        snapshot.close()
    report = validation.report
    names = [index.name for index in collection.counted_indexes]
    return {
        "ns": context.namespace,
        "nInvalidDocuments": 0,
        "nNonCompliantDocuments": 0,
        "nrecords": number(report.count),
        "nIndexes": len(names),
        "keysPerIndex": {name: number(report.keys[name]) for name in names},
        "indexDetails": {
            name: {"valid": not any(f"index {name} " in error for error in report.errors)} for name in names
        },
        **_FINDINGS,
        "valid": report.valid,
        "errors": report.errors,
    }


def check_options(arguments: Arguments) -> None:
    """Reject contradictory options. Errors: InvalidOptions."""
    options = [name for name in _OPTIONS if arguments[name]]
    if "metadata" in options and len(options) > 1:
        raise CommandError(
            Code.InvalidOptions, "validate with { metadata: true } is not supported with any other options"
        )
    for other in ("full", "enforceFastCount", "repair"):
        if "background" in options and other in options:
            raise CommandError(
                Code.InvalidOptions,
                f"validate with both {{ background: true }} and {{ {other}: true }} is not supported",
            )
    if "repair" in options:
        raise CommandError(
            Code.CommandNotSupported, "validate repairs nothing; start the node once with --repair instead"
        )


COMMAND = VALIDATE.command(run)
