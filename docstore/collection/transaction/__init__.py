"""Transactions over many documents: a store over a store, which its owner writes to the one below in one batch."""
