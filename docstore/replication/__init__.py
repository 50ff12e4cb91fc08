"""The protocol of replica sets as a pure core: `core.Core` takes events and gives effects.

No clock, no random numbers, no I/O: the simulation in `tests/simulation` and the driver in `docstore.replicaset` run
the same code.
"""
