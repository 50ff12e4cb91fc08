from libc.math cimport asin, atan2, cos, fabs, sqrt

from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, OBJECT, part
from docstore.kernel.geometry.cells cimport CellCircle
from docstore.kernel.geometry.points cimport PlainPoint, Vector
from docstore.kernel.match.predicate cimport PathPredicate

cdef double _PI
cdef double _SURE
cdef double _SHORT
cdef double _SLACK
cdef Py_ssize_t _PER_EDGE
cdef Py_ssize_t _PER_PAIR
cdef int _OUTSIDE
cdef int _INSIDE
cdef int _UNKNOWN

cdef class _Edge:
    cdef double ax
    cdef double ay
    cdef double az
    cdef double bx
    cdef double by
    cdef double bz
    cdef double x
    cdef double y
    cdef double z
    cdef double radius
    cdef bint is_near(self, double x, double y, double z, double radius) noexcept
    cdef double distance(self, double x, double y, double z) noexcept

cdef double _angle(double ax, double ay, double az, double bx, double by, double bz) noexcept
cdef double _determinant(
    double ax, double ay, double az, double bx, double by, double bz, double cx, double cy, double cz,
) noexcept

cdef class _Covering:
    cdef list cells
    cdef object waiting
    cdef list edges
    cdef object _surrounds
    cdef int _coarsest
    cdef CellCircle _around
    cdef sort_out(self, int face, long long column, long long row, int level, object edges)

cdef class WithinAreas(PathPredicate):
    cdef tuple _outlook
    cdef list _areas
    cdef PlainPoint _point
    cdef Vector _vector
    cdef object _otherwise
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int _judge(self, double x, double y, double z) except -1
    cdef int _in_area(self, object rings, double x, double y, double z) except -1
    cdef int _in_ring(self, object ring, double px, double py, double pz) except -1
