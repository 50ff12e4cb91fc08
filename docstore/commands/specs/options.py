"""Parameters that several commands share."""

from __future__ import annotations

from docstore.commands.declaration import Parameter, Type

CURSOR = Parameter("cursor", Type.OBJECT)
"""`{batchSize: n}` of commands that reply with a cursor."""
COLLATION = Parameter("collation", Type.OBJECT)
LET = Parameter("let", Type.OBJECT)
HINT = Parameter("hint", Type.HINT)
BYPASS = Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False)
