"""Whole sessions compared with what was written down: the shell's printed text, elections event by event."""
