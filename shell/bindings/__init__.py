"""The Python functions for the shell's JavaScript (commands to a server, files, printing), and the isolate that runs
it.
"""
