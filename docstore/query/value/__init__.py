"""Values in the query languages: order, collation, arithmetic, paths."""
