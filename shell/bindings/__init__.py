"""shell.bindings"""
