"""The data node: map-reduce and the wide-column mode over `docstore.node`, and what makes a node a shard."""
