"""The config servers: a replica set that keeps the cluster's metadata and changes it by compare-and-set."""
