"""tests.transcripts"""
