"""validate: a collection's documents, indexes and counters are held against each other; nothing is repaired."""

from __future__ import annotations

from docstore.collection.views import check_no_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.statistics import number


def run(context: Context, _arguments: Arguments) -> Result:
    store = node_of(context).store
    collection = store.collection(context.namespace)
    if collection is None:
        check_no_view(store, context.namespace)
        raise CommandError(Code.NamespaceNotFound, f"Collection '{context.namespace}' does not exist to validate.")
    report = store.validate(collection)
    return {
        "ns": context.namespace,
        "nInvalidDocuments": 0,
        "nNonCompliantDocuments": 0,
        "nrecords": number(report.count),
        "nIndexes": len(collection.indexes),
        "keysPerIndex": {name: number(count) for name, count in report.keys.items()},
        "indexDetails": {
            name: {"valid": not any(f"index {name} " in error for error in report.errors)}
            for name in collection.indexes
        },
        "valid": report.valid,
        "repaired": False,
        "warnings": [],
        "errors": report.errors,
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
    }


COMMAND = Command(
    "validate", run, privilege=Privilege("validate", Resource.COLLECTION), role=Role.ANY, value=Type.COLLECTION,
    parameters=(
        Parameter("full", Type.SAFE_BOOL, default=False),
        Parameter("scandata", Type.SAFE_BOOL, default=False),
        Parameter("repair", Type.SAFE_BOOL, unsupported="validate repairs nothing"),
        Parameter("metadata", Type.SAFE_BOOL, unsupported="validate always reads the documents"),
        Parameter("background", Type.SAFE_BOOL, unsupported="validate holds the server while it runs"),
    ),
    help="check a collection against its indexes and counters",
)  # fmt: skip
