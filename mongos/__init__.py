"""mongos"""
