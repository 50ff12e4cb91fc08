"""One or more cases for each name of the query, update and aggregation languages, as data, by family."""
