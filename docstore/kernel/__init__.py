"""The kernel: all operations on raw documents, without decoding them.

Its packages, lowest first:

- `keys`: order-preserving keys;
- `match`: compiled predicates;
- `scan`: the loops over stored documents and index entries;
- `group`: accumulators and windows;
- `compute`: expressions, projections, the most common updates;
- `geometry`: points, regions and cells of the plane and the sphere;
- `text`: terms of texts;
- `columns`: rows of the wide-column mode.

BSON itself is a layer below, in `docstore.bson`.
"""

from docstore.sources import prefer_sources_where_asked

prefer_sources_where_asked(*__path__)
