"""Tests against real processes: nodes, sets, clusters and the shell, and what is left of them after kill -9."""
