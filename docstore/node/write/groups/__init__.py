"""Statements of one command that are carried out side by side, of updates and of deletions."""
