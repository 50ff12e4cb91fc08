"""Limits of the console."""

MAX_HEAD_BYTES = 16 << 10
MAX_METRIC_ROWS = 10_000
"""Rows of a command's cursor that become figures."""
