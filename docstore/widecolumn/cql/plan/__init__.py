"""Statements resolved against the schema: which partitions and rows, what is written, what is selected."""
