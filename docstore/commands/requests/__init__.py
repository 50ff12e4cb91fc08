"""What nodes and routers understand alike by a request: from a command's arguments to what its handlers carry out."""
