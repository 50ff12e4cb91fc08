"""The contents of a dump (files or an archive, users, the log): selection, writing, reading and replay."""
