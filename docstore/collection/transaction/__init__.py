"""Multi-document transactions: a store over a store, written to the one below in one batch."""
