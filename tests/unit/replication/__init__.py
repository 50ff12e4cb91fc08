"""tests.unit.replication"""
