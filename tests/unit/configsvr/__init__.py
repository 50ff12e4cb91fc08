"""Tests of configsvr."""
