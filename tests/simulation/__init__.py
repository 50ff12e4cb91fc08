"""Replica sets on a simulated clock, network and disk: whole histories from one seed."""
