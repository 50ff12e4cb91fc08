"""Time-series collections as pure values: what defines one, its buckets, and how requests about measurements are said
about buckets.

A time-series collection `NAME` is a view over `system.buckets.NAME`, whose documents hold many measurements each
(`buckets`). What is asked of it is asked of the view, whose one stage takes buckets apart (`unpacking`); conditions on
measurements are said of buckets in front of it (`conditions`), the keys of indexes too (`index_keys`).
"""
