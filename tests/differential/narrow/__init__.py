"""Random requests of users with few privileges, which a real server and ours judge alike."""
