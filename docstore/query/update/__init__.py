"""The update language: operators on paths, replacement, and the seeding of upserts."""
