"""tests.unit.net"""
