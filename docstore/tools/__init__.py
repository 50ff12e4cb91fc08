"""Commands that copy data out of a server and back, in the files that MongoDB's own tools read and write.

They are clients like any other: they know a server by its wire protocol alone, and import nothing of the library.
"""
