"""Messages to bytes and back, cut anywhere, compressed, and damaged."""
