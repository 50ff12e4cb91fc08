"""explain: plans in the reference's format, with execution statistics."""
