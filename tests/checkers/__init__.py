"""Histories of what clients saw, and checkers that say what in them no correct cluster could have done."""
