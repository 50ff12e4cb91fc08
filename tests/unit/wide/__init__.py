"""tests.unit.wide"""
