"""Projections, and the array positions that they may ask for."""
