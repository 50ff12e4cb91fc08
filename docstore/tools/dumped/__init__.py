"""What a dump consists of, files or an archive, users, the log: how it is chosen, written, found and replayed."""
