"""The native protocol of CQL: framing, bodies, and what broken ones are answered."""
