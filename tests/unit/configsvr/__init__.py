"""The catalog of a cluster and the commands that change it, over a store in memory."""
