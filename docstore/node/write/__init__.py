"""Write commands on a node: the driver that runs statements in slices, one module for each kind of statement."""
