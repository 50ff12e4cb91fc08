"""The plans of searches in indexes of their own: nearness, regions, texts."""
