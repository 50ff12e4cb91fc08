"""Parameters that several commands take in the same form."""

from __future__ import annotations

from docstore.commands.declaration import Parameter, Type

CURSOR = Parameter("cursor", Type.OBJECT)
"""`{batchSize: n}` of commands that answer with a cursor."""
COLLATION = Parameter("collation", Type.OBJECT)
LET = Parameter("let", Type.OBJECT)
HINT = Parameter("hint", Type.HINT)
BYPASS = Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False)
