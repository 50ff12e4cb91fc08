"""The table of all stages."""

from __future__ import annotations

from collections.abc import Mapping

from docstore.aggregation.stage import Declaration
from docstore.aggregation.stages import (
    bucket,
    bucket_auto,
    change_stream,
    count,
    densify,
    facet,
    fill,
    geo_near,
    graph_lookup,
    group,
    limit,
    lookup,
    match,
    project,
    redact,
    replace_root,
    sample,
    set_window_fields,
    sort,
    sources,
    union_with,
    unpack_bucket,
    unwind,
    write,
)

_MODULES = (
    bucket,
    bucket_auto,
    change_stream,
    count,
    densify,
    facet,
    fill,
    geo_near,
    graph_lookup,
    group,
    limit,
    lookup,
    match,
    project,
    redact,
    replace_root,
    sample,
    set_window_fields,
    sort,
    sources,
    union_with,
    unpack_bucket,
    unwind,
    write,
)

STAGES: Mapping[str, Declaration] = {
    declaration.name: declaration for module in _MODULES for declaration in module.DECLARATIONS
}
