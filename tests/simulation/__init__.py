"""The whole system in one process: the shipping programs on a simulated clock, network and disk, from one seed.

`interpreter` replaces the clock and the dice; `loop`, `network`, `disk`, `process` are the machines; `world` is all
of a schedule; `programs`, `replica_set` start the system; `clients`, `workloads` use it, `faults` disturb it,
`invariants` watch it; `scenarios` are what is tried, `plants` bugs to be found; `schedule`, `command` run them.
"""
