"""setIndexCommitQuorum: rejected after validation, because no index build waits for its quorum before it commits."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import existing
from docstore.node.ddl.commit_quorum import check_quorum


def run(context: Context, arguments: Arguments) -> Result:
    check_quorum(arguments["commitQuorum"])
    existing(context, context.namespace)
    raise CommandError(Code.IndexNotFound, "no index build with those indexes waits for a commit quorum")


COMMAND = Command(
    "setIndexCommitQuorum", run, privilege=Privilege("createIndex", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.COLLECTION,
    parameters=(
        Parameter("indexNames", Type.STRINGS, required=True),
        Parameter("commitQuorum", (Type.INT, Type.STRING), required=True),
    ),
    refuses="no index build waits for a quorum before it commits",
)  # fmt: skip
