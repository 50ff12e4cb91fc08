"""Stages, expressions, accumulators and windows over documents in memory; the optimiser and the split."""
