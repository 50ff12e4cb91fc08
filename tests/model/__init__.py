"""Small models explored exhaustively: every order in which a few steps can happen, not only those that a seed finds."""
