"""tests.unit.wire"""
