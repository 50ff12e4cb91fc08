"""What holds for all tests: how long an example of Hypothesis takes says something about the machine, not about us, and
a full collection of garbage does not look at the tests themselves.
"""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_collection_finish() -> None:
    """The tests' own objects are there to the end. To walk them takes longer than members wait for a heartbeat."""
    gc.collect()
    gc.freeze()
