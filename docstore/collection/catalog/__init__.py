"""The catalog: collections, views and indexes, their options, and changes of both."""
