"""Encrypted connections.

Modules: `certificates` (the files of a process as contexts), `door` (tells encrypted from plain connections), `stream`
(one encrypted connection). Everything else sees the plain side of a stream, as it would see a socket's transport.
"""
