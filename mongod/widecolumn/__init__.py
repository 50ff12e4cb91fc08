"""The wide-column mode of a data node: its commands over `docstore.widecolumn.node`."""
