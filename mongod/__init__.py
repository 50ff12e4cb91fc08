"""The data node: map-reduce and the wide-column mode over `docstore.node`, and the parts that make a node a shard."""
