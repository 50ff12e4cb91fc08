"""Which collections, views and indexes there are, their options, and the changes of both."""
