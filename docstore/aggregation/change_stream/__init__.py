"""What routers and nodes both know of change streams: their options and their resume tokens. Pure."""
