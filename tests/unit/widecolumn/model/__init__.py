"""tests.unit.widecolumn.model"""
