"""tests.simulation"""
