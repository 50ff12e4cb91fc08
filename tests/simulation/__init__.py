"""The whole system in one process: the shipping programs on a simulated clock, network and disk, from one seed.

`interpreter` replaces the clock and the dice; `loop`, `network`, `disk`, `process` are the machines; `world` is all
of a schedule; `programs`, `replica_set`, `sharded` start the system; `clients`, `workloads` use it, `faults` and
`cluster_faults` disturb it, most of it at `moments`; `invariants` watch it, `leaks` and `cluster_leaks` look at what is
left; `scenarios` are what is tried, `plants` bugs to be found; `schedule`, `command` run them.
"""
