"""Multi-document transactions on one node: their sessions, the execution of their requests, and their ends."""
