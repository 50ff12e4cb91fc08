"""The build backend: setuptools, plus Cython for the kernel and some modules above it. Used for installation only.

If the kernel cannot be compiled (no C compiler, no headers, a big-endian machine) it is interpreted: the installation
succeeds, and the same `.py` files run. It is compiled as a whole or not at all, since compiled modules call each other
in C. Finished modules are moved into place, so that no process sees a partial one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from kernel_declarations import Library
from kernel_modules import COMPILED, COMPILED_BESIDE, LIMITS
from setuptools import build_meta, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import BaseError, CCompilerError
from setuptools.extension import Extension

PLAIN_DIRECTIVES = {"language_level": "3", "binding": False}
"""The directives of modules above the kernel."""

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}
"""`docstore.bson.walk` checks offsets itself, and they are never negative."""


class CompileKernel(build_ext):
    """`build_ext` with the kernel's directives: all of its modules are compiled, or none."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1

    def build_extensions(self) -> None:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError

        try:
            if sys.byteorder != "little":
                raise CCompilerError("the kernel reads numbers as they lie in memory, which must be little-endian")
            folder = Path(self.build_temp).absolute()
            Library.of_docstore(COMPILED, COMPILED_BESIDE, LIMITS).write(folder)
            # Cython runs in processes, since it is Python; the C compiler by `parallel`, in threads that wait for it.
            # In the folder, Cython finds the declarations, and gives tracebacks the usual paths.
            with contextlib.chdir(folder):
                for names, directives in ((COMPILED, DIRECTIVES), (COMPILED_BESIDE, PLAIN_DIRECTIVES)):
                    own = {f"docstore.{name}" for name in names}
                    extensions = [extension for extension in self.extensions if extension.name in own]
                    translated = cythonize(  # type: ignore[no-untyped-call]
                        extensions, nthreads=self.parallel, compiler_directives=directives
                    )
                    for extension, in_c in zip(extensions, translated, strict=True):
                        extension.sources = [os.path.join(self.build_temp, source) for source in in_c.sources]
            super().build_extensions()
        except (CCompilerError, BaseError, CompileError) as error:
            self.warn(f"the kernel is not compiled and will be interpreted: {error}")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []

    def copy_extensions_to_source(self) -> None:
        """Put the modules beside their sources; one from an earlier build must not stay in between."""
        super().copy_extensions_to_source()
        fresh = {extension.name.replace(".", "/") for extension in self.extensions}
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        for path in Path("docstore").rglob(f"*{suffix}"):
            if str(path).removesuffix(suffix) not in fresh:
                path.unlink()

    def copy_file(self, infile: Any, outfile: Any, *args: Any, **kwargs: Any) -> Any:
        """Copy to a file beside the target, then rename it over the target."""
        target = Path(outfile)
        fresh = target.with_name(target.name + ".new")
        shutil.copyfile(infile, fresh)
        os.replace(fresh, target)
        return str(target), True


class CompleteSdist(sdist):
    """`sdist` with the files of this folder, which is no package."""

    def make_distribution(self) -> None:
        self.filelist.extend(os.path.relpath(path) for path in Path(__file__).parent.glob("*.py"))
        super().make_distribution()


class Backend(build_meta._BuildMetaBackend):
    """setuptools' backend, with the extensions, which setup.cfg cannot name."""

    def run_setup(self, setup_script: str = "setup.py") -> None:
        setup(
            cmdclass={"build_ext": CompileKernel, "sdist": CompleteSdist},
            ext_modules=[
                Extension(
                    f"docstore.{name}",
                    [f"docstore/{name.replace('.', '/')}.py"],
                    extra_compile_args=["-O3" if name in COMPILED else "-O2", "-g0"],
                )
                for name in (*COMPILED, *COMPILED_BESIDE)
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
