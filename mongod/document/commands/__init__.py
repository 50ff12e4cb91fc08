"""mongod.document.commands"""
