"""Read commands on a node: snapshots, cursors and their batches, tailing, views."""
