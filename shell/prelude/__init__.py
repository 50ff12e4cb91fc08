"""shell.prelude"""
