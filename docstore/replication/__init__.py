"""The replica set protocol as a pure core: `core.Core` takes events and returns effects.

It uses no clock, random numbers or I/O: the simulation in `tests/simulation` and the driver in `docstore.replicaset`
run the same code.
"""
