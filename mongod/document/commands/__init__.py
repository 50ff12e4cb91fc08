"""The commands that run users' functions over collections, one module each: mapReduce, group, eval."""
