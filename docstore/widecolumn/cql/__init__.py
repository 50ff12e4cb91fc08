"""CQL 3 over the wide-column model: parsing, preparing, executing. Nothing here knows a transport, a clock or a disk.

A statement goes through four hands: `parser` makes a tree of its text, `preparing` resolves the tree against the schema
once, `Prepared` statements are bound to values as often as wished, and `execution` carries them out over an `Executor`.
"""
