"""Time-series collections as pure values: their definition, their buckets, and the translation of requests about
measurements to requests about buckets.

A time-series collection `NAME` is a view over `system.buckets.NAME`, whose documents hold many measurements each
(`buckets`). Requests go to the view, whose one stage unpacks buckets (`unpacking`). Conditions on measurements become
conditions on buckets before that stage (`conditions`), and so do the keys of indexes (`index_keys`).
"""
