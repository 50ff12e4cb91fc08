"""mongos.commands"""
