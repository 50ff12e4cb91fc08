"""mongod.migration"""
