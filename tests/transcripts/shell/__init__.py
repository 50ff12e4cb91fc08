"""Sessions of the shell against a server, a set, a cluster and a server that is not there, with what was printed."""
