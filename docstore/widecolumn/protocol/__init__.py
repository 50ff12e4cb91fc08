"""The native protocol of CQL, versions 4 and 5, as values: bytes to requests, results to bytes.

`docstore.widecolumn.protocol.codec.ServerCodec` is the framing of one connection, `requests` and `responses` are the
bodies. Invariants: no socket, no clock; malformed input raises an error of `docstore.widecolumn.protocol.errors` and
nothing else; no memory is taken for a length before the length is checked.
"""
