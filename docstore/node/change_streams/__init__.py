"""Change streams of a node: what its oplog says, as events for those who follow it.

`operations` takes entries apart, `events` makes documents of them, `shared_reader` reads the log once for all streams
that have caught up with it, `stream` is one of them as a cursor's source, `opening` the command's side.
"""
