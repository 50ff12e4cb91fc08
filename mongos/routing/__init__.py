"""Where a request goes: the routing cache, the shards of a filter or document, and requests with their versions."""
