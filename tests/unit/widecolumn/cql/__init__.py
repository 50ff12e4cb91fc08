"""CQL from its grammar to its results, over an executor that keeps rows in memory."""
