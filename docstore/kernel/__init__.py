"""The kernel: everything that is done to documents without decoding them.

Rooms, lowest first: `keys` (order-preserving keys), `match` (compiled predicates), `scan` (the loops over stored
documents and index entries), `group`, `compute` (expressions, projections, the commonest updates), `geometry` (points,
regions and cells of the plane and the sphere), `text` (terms of texts), `columns` (rows of the wide-column mode). What
BSON itself is stands below, in `docstore.bson`.
"""

from docstore.sources import prefer_sources_where_asked

prefer_sources_where_asked(*__path__)
