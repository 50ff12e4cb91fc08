"""Every test that takes `kernel` runs on both copies."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

from tests.unit.bson import kernels


@pytest.fixture(scope="session", params=["compiled", "interpreted"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """The package docstore.bson, compiled or interpreted."""
    if request.param == "interpreted":
        return kernels.interpreted()
    kernel = kernels.installed()
    for name in kernels.NOT_EXPORTED:
        import_module(f"{kernels.PACKAGE}.{name}")
    if not kernels.is_compiled(kernel):
        pytest.skip("the kernel is not compiled here")
    return kernel
