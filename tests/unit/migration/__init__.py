"""Tests of mongod.migration."""
