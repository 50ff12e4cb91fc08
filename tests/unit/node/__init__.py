"""Commands on a data node in memory (`local.LocalNode`), many of them beside a real server."""
