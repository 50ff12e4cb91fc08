"""Change streams, as far as routers and nodes share them: options and resume tokens. Pure."""
