"""Read commands on a node: which state a read sees, cursors and their batches, tailing, views."""
