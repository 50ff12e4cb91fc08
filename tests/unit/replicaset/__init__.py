"""tests.unit.replicaset"""
