"""Limits of a node's commands."""

MAX_CACHED_STREAM_DECISIONS = 1000
MAX_CACHED_SPEC_BYTES = 1024
"""Of an index's specification."""
MAX_CACHED_DESCRIPTION_BYTES = 1024
"""Of a collection's options and `_id` index."""
MAX_INLINE_RESULT_BYTES = 1 << 20
"""Results of a pipeline or a sorted find that is executed in one step."""
MAX_TEMPLATE_BYTES = 4096
"""Stages that a template is made of."""
MAX_IMMEDIATE_FREE_BYTES = 64 * 1024
"""Documents that are freed in one go."""
MIN_SAMPLED_DOCUMENTS = 100
"""A collection of fewer is scanned for `$sample`, as is one of fewer than MIN_SAMPLED_RATIO for each in the sample."""
MIN_SAMPLED_RATIO = 20
MAX_SAMPLE_DOCUMENTS = 256
MAX_SAMPLE_BYTES = 16 * 1024 * 1024
MAX_OPEN_BUCKETS = 10_000
MAX_UNPACKED_BYTES = 1 << 20
"""Buckets that are unpacked in a step."""
MAX_CACHED_USERS = 1024
MAX_DECOY_USERS = 1000
"""Users whose credentials serve as decoys for unknown names."""
MAX_BATCH_BYTES = 1024 * 1024
"""Writes of several requests in one batch."""
