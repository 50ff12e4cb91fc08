"""The console over HTTP, on a node in memory: who is let in, what is answered and bounded, what the metrics say."""
