"""The figures of a process in the format of Prometheus.

`gather` asks for them by commands, `process`, `replication` and `sharding` make metrics of the replies, `page` writes
them. Names follow the rules of Prometheus: base units, counters that end in `_total`.
"""
