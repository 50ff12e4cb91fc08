"""Plan execution: from access paths to documents, counts and covered results."""
