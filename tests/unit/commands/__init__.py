"""tests.unit.commands"""
