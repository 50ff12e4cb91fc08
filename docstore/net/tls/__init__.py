"""TLS connections.

Modules: `certificates` (the files of a process as contexts), `door` (distinguishes TLS from plain connections),
`stream` (one TLS connection). Everything else sees the plain side of a stream, as it would see a socket's transport.
"""
