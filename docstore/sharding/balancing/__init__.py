"""Balancing as pure decisions: which chunk moves next, and whether the settings of the cluster allow it now."""
