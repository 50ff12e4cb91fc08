"""Geometry in filters: what `$geoWithin` and `$geoIntersects` say of a value, without an index."""
