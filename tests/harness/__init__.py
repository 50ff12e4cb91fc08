"""What several test packages share: servers in the event loop, faulty engines, waiting, the reference."""
