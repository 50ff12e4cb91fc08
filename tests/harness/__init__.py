"""tests.harness"""
