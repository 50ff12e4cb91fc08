"""Who a client is and what it may do, as values: SCRAM, users, roles, privileges. No storage, no sockets, no clock."""
