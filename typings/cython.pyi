"""What mypy knows of `cython`: what that package says of itself, but for the decorator that it has untyped."""

from collections.abc import Callable
from typing import Any, TypeVar

from Cython.Shadow import NULL as NULL
from Cython.Shadow import Py_ssize_t as Py_ssize_t
from Cython.Shadow import address as address
from Cython.Shadow import bint as bint
from Cython.Shadow import cast as cast
from Cython.Shadow import ccall as ccall
from Cython.Shadow import cclass as cclass
from Cython.Shadow import cfunc as cfunc
from Cython.Shadow import compiled as compiled
from Cython.Shadow import double as double
from Cython.Shadow import inline as inline
from Cython.Shadow import int as int
from Cython.Shadow import longlong as longlong
from Cython.Shadow import no_gc as no_gc
from Cython.Shadow import p_char as p_char
from Cython.Shadow import p_void as p_void
from Cython.Shadow import pointer as pointer
from Cython.Shadow import sizeof as sizeof
from Cython.Shadow import struct as struct
from Cython.Shadow import typedef as typedef
from Cython.Shadow import uchar as uchar
from Cython.Shadow import ulonglong as ulonglong

_Function = TypeVar("_Function", bound=Callable[..., Any])

def exceptval(value: object = ..., *, check: bool = ...) -> Callable[[_Function], _Function]: ...
