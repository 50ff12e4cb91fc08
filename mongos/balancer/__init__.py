"""What routers do about chunks: splits as they grow, moves from full shards to empty ones, the settings of both."""
