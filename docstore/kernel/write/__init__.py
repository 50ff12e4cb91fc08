"""The statements of write commands, and their effects on batches of documents."""
