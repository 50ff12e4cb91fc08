"""Geometry in filters: the semantics of `$geoWithin`, `$geoIntersects` and `$near`, without and with an index."""
