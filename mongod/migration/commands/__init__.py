"""mongod.migration.commands"""
