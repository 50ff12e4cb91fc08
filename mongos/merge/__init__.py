"""mongos.merge"""
