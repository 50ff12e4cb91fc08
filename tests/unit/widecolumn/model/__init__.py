"""Comparators, cells, slices and families of columns as values, and `storage-conf.xml`."""
