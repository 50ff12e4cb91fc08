"""Documents as extended JSON, CSV or TSV: read, and written."""
