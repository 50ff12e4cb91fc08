"""tests.layout"""
