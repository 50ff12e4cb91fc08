"""Documents calculated from documents: expressions, dates, projections, the commonest updates."""
