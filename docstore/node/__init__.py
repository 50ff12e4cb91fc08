"""A process that stores documents.

Packages by subject: start and stop (`process`), reads, writes, pipelines, explain, catalog changes (`ddl`), background
work (`upkeep`), users, transactions, change streams, time series, and `commands`, the handlers.
"""
