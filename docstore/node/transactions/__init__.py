"""Transactions over many documents on one node: whose they are, what is carried out in them, how they end."""
