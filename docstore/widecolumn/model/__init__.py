"""The wide-column model as pure values: comparators, tokens, storage keys, cells and how two versions of one merge.

Nothing here knows a clock, a disk or a socket. Routers hash partition keys with it, nodes store cells with it.
"""
