"""setFeatureCompatibilityVersion: confirms the only version that there is."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.limits import FEATURE_VERSION
from docstore.errors import CommandError


def run(_context: Context, arguments: Arguments) -> Result:
    if arguments.value != FEATURE_VERSION:
        raise CommandError(
            4926900, f"Invalid feature compatibility version value, this server has '{FEATURE_VERSION}' and no other"
        )
    return {}


COMMAND = Command(
    "setFeatureCompatibilityVersion", run, privilege=Privilege("setFeatureCompatibilityVersion", Resource.CLUSTER),
    role=Role.PRIMARY, admin_only=True, value=Type.STRING,
    parameters=(Parameter("confirm", Type.BOOL), Parameter("downgradeOnDiskChanges", Type.BOOL)),
    help="confirm the feature version",
)  # fmt: skip
