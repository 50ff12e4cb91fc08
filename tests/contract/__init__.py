"""tests.contract"""
