"""Who a connection is authenticated as, and what that lets its commands do."""
