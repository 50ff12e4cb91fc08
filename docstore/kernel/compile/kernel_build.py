"""The build backend: setuptools, plus Cython for the kernel and some modules above it. Used for installation only.

If the kernel cannot be compiled (no C compiler, no headers, a big-endian machine) it is interpreted: the installation
succeeds, and the same `.py` files run. It is compiled as a whole or not at all, since compiled modules call each other
in C. Finished modules are moved into place, so that no process sees a partial one.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import build_meta, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import BaseError, CCompilerError
from setuptools.extension import Extension

COMPILED = (
    "bson.allowance",
    "bson.walk",
    "bson.build",
    "kernel.compute.field_updates",
    "kernel.compute.new_values",
    "kernel.compute.elements",
    "kernel.compute.changes",
    "kernel.compute.operators",
    "bson.validation",
    "bson.number",
    "bson.order",
    "kernel.keys.writer",
    "kernel.keys.encoding",
    "kernel.keys.gathered",
    "kernel.log.undo",
    "kernel.log.entries",
    "kernel.log.batches",
    "kernel.log.runs",
    "kernel.keys.expansion",
    "kernel.keys.folding",
    "kernel.keys.elements",
    "kernel.keys.pattern",
    "kernel.keys.entry_source",
    "kernel.keys.bounds",
    "kernel.match.form",
    "kernel.match.predicate",
    "kernel.match.bit_predicates",
    "kernel.match.path_predicates",
    "kernel.match.text_predicates",
    "kernel.match.schema_predicates",
    "kernel.scan.documents",
    "kernel.scan.fetch",
    "kernel.scan.index_bounds",
    "kernel.scan.covered",
    "kernel.keys.new_documents",
    "kernel.scan.sifted",
    "kernel.geometry.curve",
    "kernel.geometry.points",
    "kernel.geometry.regions",
    "kernel.geometry.nearby",
    "kernel.geometry.cells",
    "kernel.geometry.plane",
    "kernel.geometry.outlines",
    "kernel.text.words",
    "kernel.group.sources",
    "kernel.group.double_sum",
    "kernel.group.accumulators",
    "kernel.group.deviation",
    "kernel.group.chosen",
    "kernel.group.grouping",
    "kernel.group.rows",
    "kernel.group.value_set",
    "kernel.group.partners",
    "kernel.scan.pairs",
    "kernel.scan.sort",
    "kernel.compute.calendar",
    "kernel.compute.expressions",
    "kernel.compute.arrays",
    "kernel.compute.ordered",
    "kernel.compute.bindings",
    "kernel.compute.numbers",
    "kernel.compute.texts",
    "kernel.group.windows",
    "kernel.compute.dates",
    "kernel.compute.projection",
    "kernel.compute.differences",
    "kernel.compute.change_events",
    "kernel.scan.watched",
    "kernel.scan.kept",
    "kernel.series.filling",
    "kernel.series.packing",
    "kernel.series.bucket",
    "kernel.series.unpacking",
    "kernel.columns.murmur3",
    "kernel.columns.encoding",
    "kernel.columns.mutations",
    "kernel.write.statements",
    "kernel.write.identity_updates",
)
"""The modules of docstore that run per document."""

COMPILED_BESIDE = (
    "wire.message",
    "storage.engine",
    "storage.disk_space",
    "storage.rocks_snapshot",
    "storage.rocks",
    "collection.collection",
    "collection.index.entries",
    "collection.read.overlay",
    "query.plan.prepared_scan",
    "query.update.direct",
    "collection.read.prepared",
    "collection.oplog.oplog",
    "collection.oplog.sessions",
    "collection.oplog.journal",
    "collection.unit_of_work",
    "collection.store",
    "commands.arguments",
    "commands.client_connection",
    "commands.context",
    "commands.request_templates",
    "commands.metrics",
    "commands.gossip",
    "commands.envelope",
    "commands.dispatch",
    "net.turn",
    "net.connection",
    "replicaset.cluster_times",
    "node.node",
    "node.read.snapshot",
    "node.read.cursors",
    "node.read.at_once",
    "node.write.modification",
    "node.write.driver",
    "node.write.fast_path",
    "node.write.groups.updates",
    "node.commands.insert",
    "node.commands.find",
)
"""Modules above the kernel that run per request, and whose classes have typed attributes once they are compiled.

They are compiled with the semantics of Python, and call the kernel like any other module. A compiled annotation of a
Python type, such as `int`, rejects values of subclasses. A module that receives such values (`Int64`, say) begins with
`annotation_typing=False`.
"""

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
            # Cython runs in processes, since it is Python; the C compiler by `parallel`, in threads that wait for it.
            for names, directives in ((COMPILED, DIRECTIVES), (COMPILED_BESIDE, PLAIN_DIRECTIVES)):
                own = {f"docstore.{name}" for name in names}
                extensions = [extension for extension in self.extensions if extension.name in own]
                translated = cythonize(  # type: ignore[no-untyped-call]
                    extensions, nthreads=self.parallel, compiler_directives=directives, build_dir=self.build_temp
                )
                for extension, in_c in zip(extensions, translated, strict=True):
                    extension.sources = in_c.sources
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
    """`sdist` with this file, which is in no package."""

    def make_distribution(self) -> None:
        self.filelist.append(os.path.relpath(__file__))
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
