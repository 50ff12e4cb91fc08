"""configsvr.commands"""
