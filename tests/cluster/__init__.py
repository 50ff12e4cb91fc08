"""tests.cluster"""
