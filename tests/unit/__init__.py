"""Tests of one module or package each, without processes; the folders are those of the sources."""
