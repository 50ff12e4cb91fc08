"""Tests of docstore.bson, each run on the compiled and on the interpreted kernel."""
