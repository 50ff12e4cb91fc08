"""The query language: filters, projections, sorts, updates, and the choice of a plan. Pure: raw values in, raw values
out.
"""
