from libc.math cimport atan2, cos, fabs, sin, sqrt

from docstore.bson.number cimport integer_at
from docstore.bson.walk cimport (
    ARRAY, DOUBLE, INT32, INT64, OBJECT, STRING, document_stop, double_at, find, int32_at, part, value_end,
)
from docstore.kernel.match.predicate cimport PathPredicate

cdef double _RADIANS
cdef double _DOUBTFUL
cdef bytes _TYPE
cdef bytes _COORDINATES
cdef bytes _POINT
cdef Py_ssize_t _BESIDE_COORDINATES

cdef class Vector:
    cdef double x
    cdef double y
    cdef double z
    cdef turn_to(self, double longitude, double latitude)
    cdef double angle(self, double x, double y, double z) noexcept

cdef class PlainPoint:
    cdef double x
    cdef double y
    cdef bint on_sphere
    cdef int code
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef bint read_at(self, bytes raw, list[bytes] names) except -1
    cdef bint read(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _read_pair(self, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef bint _is_point(bytes raw, Py_ssize_t at) noexcept
cdef Py_ssize_t _width(int code) noexcept
cdef double _double_of(int code, bytes raw, Py_ssize_t at) noexcept

cdef class DistanceFrom:
    cdef list _names
    cdef PlainPoint _point
    cdef Vector _vector
    cdef Vector _centre
    cdef double _x
    cdef double _y
    cdef bint _spherical
    cdef double _unit
    cdef double distance(self, bytes raw) except? -2.0

cdef class WithinCircle(PathPredicate):
    cdef PlainPoint _point
    cdef Vector _vector
    cdef Vector _centre
    cdef double _radius
    cdef object _otherwise
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
