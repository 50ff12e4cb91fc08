"""CQL 3 over the wide-column model: parsing, preparing, executing. Nothing here knows a transport, a clock or a disk.

`parser` parses a statement's text to a tree (`grammar`, `statements`); `run.prepare` resolves the tree once against
the schema (`schema`, `plan`). A prepared statement may be bound to values any number of times; `run.execution`
executes it over an executor (`docstore.widecolumn.model.executor`).
"""
