"""Running plans: from access paths to documents, counts and covered answers."""
