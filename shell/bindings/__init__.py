"""What JavaScript of the shell can ask of Python: commands to a server, files, printing; and the isolate it runs in."""
