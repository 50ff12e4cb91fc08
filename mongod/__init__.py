"""mongod"""
