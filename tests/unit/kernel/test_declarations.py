"""What a source declares in C, rule by rule (`docstore.kernel.compile.kernel_declarations`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.kernel.compile.kernel_declarations import Library
from docstore.kernel.compile.kernel_modules import COMPILED, COMPILED_BESIDE, LIMITS

OTHER = """
import cython
Pair = tuple[int, bytes]
class Base:
    size: cython.Py_ssize_t
    def test(self, raw: bytes) -> cython.bint: ...
    @cython.exceptval(-2)
    def place(self, raw: bytes) -> cython.int: ...
class Plain(Exception): ...
def spend(cost: cython.int) -> cython.int: ...
"""


def library(folder: Path, source: str) -> Library:
    for name, text in (("own", source), ("other", OTHER), ("limits", "MOST: cython.int = 5\nREST = 7\n")):
        (folder / f"{name}.py").write_text(text)
    return Library(folder, ["other", "own"], [], ["limits"])


def declared(folder: Path, source: str) -> list[str]:
    return library(folder, source).compiled["own"].declarations().splitlines()[1:]


@pytest.mark.parametrize(
    ("annotation", "in_c"),
    [
        ("cython.Py_ssize_t", "Py_ssize_t"),
        ("cython.ulonglong", "unsigned long long"),
        ("cython.p_char", "char*"),
        ("cython.pointer[cython.int]", "int*"),
        ("bool", "bint"),
        ("bytes | None", "bytes"),
        ("list[bytes]", "list"),
        ("tuple[int, ...] | tuple[str, ...]", "tuple"),
        ("'bytes'", "bytes"),
        ("Base | None", "Base"),
        ("Pair", "tuple"),
        ("int", "object"),
        ("float", "object"),
        ("bool | None", "object"),
        ("bytes | bytearray", "object"),
        ("Plain", "object"),
        ("Callable[[int], bytes]", "object"),
    ],
)
def test_types(tmp_path: Path, annotation: str, in_c: str) -> None:
    lines = declared(
        tmp_path,
        f"from other import Base, Pair, Plain\n@cython.cfunc\ndef f(value: {annotation}) -> {annotation}: ...\n",
    )
    assert lines[-1].startswith(f"cdef {in_c} f({in_c} value)")


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("def f(at: cython.int, raw: bytes = b'') -> None: ...", "cdef object f(int at, bytes raw=*)"),
        ("def f(raw: bytes) -> bool: ...", None),
        ("def f(raw: bytes) -> cython.bint: ...", "cdef bint f(bytes raw) except? -1"),
        ("def f() -> cython.p_char: ...", "cdef char* f() except? NULL"),
        ("def f(raw: bytes) -> bytes: ...", None),
        ("@cython.ccall\ndef f(raw: bytes) -> bytes: ...", "cpdef bytes f(bytes raw)"),
        ("@cython.cfunc\n@cython.inline\ndef f(raw: bytes) -> bytes: ...", "cdef inline bytes f(bytes raw)"),
        ("@cython.exceptval(check=False)\ndef f(at: cython.int) -> cython.int: ...", "cdef int f(int at) noexcept"),
        ("@cython.exceptval(check=False)\ndef f(at: cython.int) -> None: ...", "cdef void f(int at) noexcept"),
        ("@cython.exceptval(-2)\ndef f(at: cython.int) -> cython.int: ...", "cdef int f(int at) except -2"),
        ("@cython.exceptval(-2, check=True)\ndef f() -> cython.int: ...", "cdef int f() except? -2"),
        ("def f(at: cython.int) -> Iterator[int]:\n    yield at", None),
        ("def f(at: cython.int) -> int:\n    return sum(n for n in range(at))", None),
        ("def f(*at: cython.int) -> None: ...", None),
        ("def f(*, at: cython.int) -> None: ...", None),
        ("async def f(at: cython.int) -> None: ...", None),
        ("@cache\ndef f(at: cython.int) -> None: ...", None),
    ],
)
def test_functions(tmp_path: Path, function: str, line: str | None) -> None:
    assert declared(tmp_path, function) == ([] if line is None else [line])


def test_a_class_has_the_attributes_that_it_annotates_and_those_that_it_assigns(tmp_path: Path) -> None:
    source = """
class Own:
    __slots__ = ("__weakref__",)
    size: cython.int
    shared: ClassVar[int] = 5
    _hidden: bytes | None
    def __init__(self, raw: bytes, size: int) -> None:
        self.raw = raw
        self.size = self.other = size
        self.given: cython.double = 1.0
        self.ready, self.names = False, {}
    @property
    def seen(self) -> int: ...
    def at(self, place: cython.int) -> bytes: ...
"""
    lines = ["cdef class Own:", "    cdef object __weakref__", "    cdef public int size", "    cdef bytes _hidden"]
    lines += ["    cdef public bytes raw", "    cdef public object other", "    cdef public double given"]
    lines += ["    cdef public bint ready", "    cdef public dict names", "    cdef bytes at(self, int place)"]
    assert declared(tmp_path, source) == lines


def test_above_the_kernel_classes_are_open(tmp_path: Path) -> None:
    (tmp_path / "above.py").write_text("class Above:\n    __weakref__: object\n    _raw: bytes\n")
    above = Library(tmp_path, [], ["above"], []).compiled["above"]
    lines = ["cdef class Above:", "    cdef object __weakref__", "    cdef public bytes _raw"]
    assert above.declarations().splitlines()[1:] == lines


def test_a_method_is_like_the_one_that_it_overrides(tmp_path: Path) -> None:
    source = """
from other import Base
class Own(Base):
    def test(self, raw: bytes) -> cython.bint:
        self.size = 5
    def place(self, raw: bytes) -> cython.int: ...
"""
    lines = ["from other cimport Base", "cdef class Own(Base):", "    cdef bint test(self, bytes raw) except? -1"]
    assert declared(tmp_path, source) == [*lines, "    cdef int place(self, bytes raw) except -2"]


@pytest.mark.parametrize(
    "source",
    [
        "class Own(Exception): ...",
        "class Own(NamedTuple):\n    size: int",
        "class Own:\n    size: int = 0",
        "@dataclass(frozen=True, slots=True)\nclass Own:\n    size: int",
        "from other import Plain\nclass Own(Plain): ...",
    ],
)
def test_classes_of_python(tmp_path: Path, source: str) -> None:
    assert declared(tmp_path, source) == []


def test_variables_constants_imports_and_structures(tmp_path: Path) -> None:
    source = """
from limits import MOST, REST
from math import floor
from other import Plain, spend
if TYPE_CHECKING:
    from other import Base
if not cython.compiled:
    from math import pow as power
    from other import spend as charge
    FIRST = 0x10
    _LEAST = -5
    _A, _B = range(2)
Entry: TypeAlias = cython.struct(at=cython.Py_ssize_t, size=cython.int)
EntryPointer: TypeAlias = cython.typedef(cython.pointer[Entry])
PUBLIC = 5
_left: cython.int = 5
_raw: bytes = b""
_any: object = object()
_number: int = 5
def f(given: Base) -> None: ...
"""
    lines = ["from other cimport Base", "from libc.math cimport pow as power"]
    lines += ["from other cimport spend as charge", "cdef struct Entry:", "    Py_ssize_t at", "    int size"]
    lines += ["ctypedef Entry* EntryPointer", "cdef int _left", "cdef bytes _raw", "cdef object _any", "cdef int MOST"]
    lines += ["cpdef enum:", "    FIRST = 16", "cdef enum:", "    _LEAST = -5", "    _A = 0", "    _B = 1"]
    assert declared(tmp_path, source) == lines


def test_cython_gets_the_source_without_what_is_declared_elsewhere(tmp_path: Path) -> None:
    source = """
Entry: TypeAlias = cython.struct(
    at=cython.int,
)
@cython.ccall
def f(ä: dict[str, list[bytes]], number: int = 5, at: cython.int = 0) -> list[bytes]: ...
def g(names: list[bytes]) -> None: ...
"""
    plain = library(tmp_path, source).compiled["own"].source_for_cython()
    assert [line.rstrip() for line in plain.splitlines()] == [
        *("", "", "", "", ""),
        "def f(ä: dict                  , number      = 5, at: cython.int = 0) -> list[bytes]: ...",
        "def g(names: list[bytes]) -> None: ...",
    ]


def test_files_that_stay_the_same_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "own.py").write_text("def f(at: cython.int) -> cython.int: ...\n")
    written = Library(tmp_path, ["room.own"], [], [])
    written.write(tmp_path / "build")
    files = sorted(path for path in (tmp_path / "build").rglob("*") if path.is_file())
    assert [path.name for path in files] == ["__init__.py", "own.pxd", "own.py"]
    before = [path.stat().st_mtime_ns for path in files]
    written.write(tmp_path / "build")
    assert [path.stat().st_mtime_ns for path in files] == before


def test_every_compiled_module_declares_what_others_import_of_it_in_c() -> None:
    compiled = Library.of_docstore(COMPILED, COMPILED_BESIDE, LIMITS).compiled
    texts = {name: module.declarations() for name, module in compiled.items()}
    missing = [
        (name, asked.module, asked.name)
        for name, module in compiled.items()
        for asked in module.imports.values()
        if asked.in_c and asked.module in compiled and f" {asked.name}" not in texts[asked.module]
    ]
    assert missing == []
