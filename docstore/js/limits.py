"""Limits of scripts and their threads."""

MAX_IDLE_THREADS = 4
