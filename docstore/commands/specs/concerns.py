"""Specs of the commands for default read and write concerns."""

from __future__ import annotations

from docstore.commands.declaration import Parameter, Privilege, Resource, Role, Spec, Type

SET_DEFAULT_RW_CONCERN = Spec(
    "setDefaultRWConcern", privilege=Privilege("setDefaultRWConcern", Resource.CLUSTER), role=Role.PRIMARY,
    admin_only=True, write_concern=True,
    parameters=(Parameter("defaultWriteConcern", Type.OBJECT), Parameter("defaultReadConcern", Type.OBJECT)),
    help="set the concerns of commands that name none",
)  # fmt: skip

GET_DEFAULT_RW_CONCERN = Spec(
    "getDefaultRWConcern", privilege=Privilege("getDefaultRWConcern", Resource.CLUSTER), role=Role.ANY,
    admin_only=True, parameters=(Parameter("inMemory", Type.BOOL, default=False),),
    help="the concerns of commands that name none",
)  # fmt: skip
