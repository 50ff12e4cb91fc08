"""The build backend: setuptools, plus the kernel's modules compiled by Cython; used while installing only.

A kernel module that cannot be compiled (no C compiler, no headers, a big-endian machine) is left to the interpreter:
the installation succeeds, and the same `.py` files run. Finished modules are moved into place in one step, so that a
process which starts during a rebuild loads either the old or the new one.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CCompilerError
from setuptools.extension import Extension

COMPILED = (
    "walk",
    "build",
    "validation",
    "number",
    "order",
    "key_writer",
    "keys",
    "key_pattern",
    "predicate",
    "leaves",
    "scan",
    "group",
    "sorting",
)
"""The modules of docstore.bson that run per document."""

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}
"""Offsets are checked by `docstore.bson.walk` itself and are never negative."""


class CompileKernel(build_ext):
    """`build_ext` with the kernel's directives."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.cython_c_in_temp = True
        self.cython_directives = DIRECTIVES

    def build_extension(self, ext: Extension) -> None:
        from Cython.Compiler.Errors import CompileError

        if sys.byteorder != "little":
            raise CCompilerError("the kernel reads numbers as they lie in memory, which must be little-endian")
        try:
            super().build_extension(ext)
        except CompileError as error:
            raise CCompilerError(f"{ext.name}: {error}") from error

    def copy_file(self, infile: Any, outfile: Any, *args: Any, **kwargs: Any) -> Any:
        """Copy beside the target, then rename over it."""
        target = Path(outfile)
        fresh = target.with_name(target.name + ".new")
        shutil.copyfile(infile, fresh)
        os.replace(fresh, target)
        return str(target), True


class CompleteSdist(sdist):
    """`sdist` with this file, which lies in no package."""

    def make_distribution(self) -> None:
        self.filelist.append(os.path.relpath(__file__))
        super().make_distribution()


class Backend(build_meta._BuildMetaBackend):
    """setuptools' backend, told of the extensions, which setup.cfg cannot name."""

    def run_setup(self, setup_script: str = "setup.py") -> None:
        setup(
            cmdclass={"build_ext": CompileKernel, "sdist": CompleteSdist},
            ext_modules=[
                Extension(
                    f"docstore.bson.{name}",
                    [f"docstore/bson/{name}.py"],
                    extra_compile_args=["-O2", "-g0"],
                    optional=True,
                )
                for name in COMPILED
            ],
        )


_backend = Backend()

build_wheel = _backend.build_wheel
build_editable = _backend.build_editable
build_sdist = _backend.build_sdist
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
get_requires_for_build_editable = _backend.get_requires_for_build_editable
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
