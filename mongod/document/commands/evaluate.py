"""eval: run a function on the server; only where the parameter `enableEval` allows it.

    {eval: function, [args: [...]], [nolock]}  ->  {retval}

MongoDB had it up to 4.0. The function sees the database's stored functions but no `db`: it computes, and neither reads
nor writes collections.
"""

from __future__ import annotations

from docstore.bson import document_from
from docstore.bson.walk import CODE, EMPTY_DOCUMENT, STRING
from docstore.commands.access.catalog_needs import anything_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.parameters import ServerParameter, truth
from docstore.errors import Code, CommandError
from docstore.js.evaluation import Evaluation
from docstore.node.node import node_of
from docstore.node.pipeline.stored_functions import stored_functions


class EvalSwitch:
    """The switch that makes a process serve eval; off at first."""

    def __init__(self) -> None:
        self.on = False

    def parameter(self) -> ServerParameter:
        return ServerParameter(name="enableEval", get=lambda: self.on, assign=self._assign)

    def _assign(self, value: object) -> None:
        self.on = truth(value)

    def command(self) -> Command:
        return Command(
            "eval", self._run, aliases=("$eval",), privilege=Privilege("anyAction", Resource.CLUSTER),
            needs=anything_needs,
            role=Role.PRIMARY, write_concern=False, value=Type.ANY,
            parameters=(
                Parameter("args", Type.ARRAY, default=EMPTY_DOCUMENT),
                Parameter("nolock", Type.SAFE_BOOL, default=False),
            ),
            help="run a JavaScript function on the server",
        )  # fmt: skip

    async def _run(self, context: Context, arguments: Arguments) -> Result:
        if not self.on:
            raise CommandError(Code.CommandNotSupported, "eval is off; the server parameter enableEval allows it")
        context.services.switches.check_scripting()
        node = node_of(context)
        function = arguments.value
        if function[0] not in (STRING, CODE):
            raise CommandError(Code.BadValue, "eval takes a function: code without a scope, or a string")
        assert node.evaluators is not None, "a process that serves eval has workers"
        evaluation = Evaluation(node.evaluators, stored_functions(node, context.db), context.owner)
        try:
            (result,) = await evaluation.call(function, [arguments["args"]], with_stored=True)
        finally:
            await evaluation.close()
        if isinstance(result, CommandError):
            raise result
        return document_from([("retval", *result)])
