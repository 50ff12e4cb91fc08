"""Write commands on a node: a driver that runs statements in slices, and a module per kind of statement."""
