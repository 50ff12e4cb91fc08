"""Projections, and the array positions that they may refer to."""
