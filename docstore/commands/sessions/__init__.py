"""Logical sessions: the fields that requests carry, who uses which, lists and reports of them."""
