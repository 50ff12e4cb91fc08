"""Documents computed from documents: expressions, dates, projections, the most common updates."""
