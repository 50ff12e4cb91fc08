"""Cores of replica set members that send each other messages without a network."""
