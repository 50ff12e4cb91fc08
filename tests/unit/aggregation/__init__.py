"""docstore.aggregation"""
