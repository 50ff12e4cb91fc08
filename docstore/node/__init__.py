"""A process that stores documents, by subject: its start and stop, reads, writes, pipelines, explain, changes of the
catalog, upkeep, and the handlers of its commands.
"""
