"""V8 workers, the codec between BSON and JavaScript, and map-reduce, beside a real server."""
