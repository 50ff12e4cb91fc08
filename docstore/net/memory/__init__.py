"""What memory a process keeps, and when it looks for what can go."""
