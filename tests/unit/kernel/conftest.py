"""Every test that takes `kernel` runs on both copies."""

from __future__ import annotations

import pytest

from tests.unit.kernel import kernels
from tests.unit.kernel.kernels import Kernel


@pytest.fixture(scope="session", params=["compiled", "interpreted"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """The kernel, compiled or interpreted."""
    if request.param == "interpreted":
        return kernels.interpreted()
    kernel = kernels.installed()
    if not kernels.is_compiled(kernel):
        pytest.skip("the kernel is not compiled here")
    return kernel
