"""The checkers over real processes: clusters on a network of their own, disturbed while clients use them."""
