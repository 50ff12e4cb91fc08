"""mongod.document"""
