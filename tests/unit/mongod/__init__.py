"""How the parts of a data node are put together."""
