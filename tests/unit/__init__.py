"""tests.unit"""
