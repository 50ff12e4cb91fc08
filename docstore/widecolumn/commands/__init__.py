"""What commands of the mode have in common on nodes and routers."""
