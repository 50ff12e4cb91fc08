"""CQL 3 over the wide-column model: parsing, preparing, executing. Nothing here knows a transport, a clock or a disk.

`parser` makes a tree of a statement's text (`grammar`, `statements`); `run.prepare` resolves the tree once against the
schema (`schema`, `plan`); what was prepared is bound to values as often as wished; `run.execution` carries it out over
an executor (`docstore.widecolumn.model.executor`).
"""
