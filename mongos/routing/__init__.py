"""mongos.routing"""
