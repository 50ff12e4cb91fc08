"""The one table of stages."""

from __future__ import annotations

from collections.abc import Mapping

from docstore.aggregation.stage import Declaration
from docstore.aggregation.stages import count, group, limit, match, project, replace_root, sort, sources, unwind

STAGES: Mapping[str, Declaration] = {
    declaration.name: declaration
    for module in (count, group, limit, match, project, replace_root, sort, sources, unwind)
    for declaration in module.DECLARATIONS
}
