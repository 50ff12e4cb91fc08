"""Change streams of a node: oplog entries as events for their subscribers.

* `operations` parses oplog entries; `events` builds event documents.
* `shared_reader` reads the oplog once for all streams that have caught up.
* `stream` is one stream as a cursor's source; `opening` handles the command.
"""
