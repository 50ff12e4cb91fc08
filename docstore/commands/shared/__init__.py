"""What commands of nodes and routers have in common: parameters, requests and replies by subject."""
