"""explain: plans in the form of the real server, with the statistics of their execution."""
