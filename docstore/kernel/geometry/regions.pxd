from libc.math cimport fabs, hypot

from docstore.bson.walk cimport ARRAY, OBJECT, part
from docstore.kernel.geometry.points cimport PlainPoint
from docstore.kernel.match.predicate cimport PathPredicate

cdef double _DOUBTFUL
cdef int _OUTSIDE
cdef int _INSIDE
cdef int _UNKNOWN

cdef class _InPlane(PathPredicate):
    cdef PlainPoint _point
    cdef object _otherwise
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int judge(self, double x, double y) except -1

cdef class WithinBox(_InPlane):
    cdef double _low_x
    cdef double _low_y
    cdef double _high_x
    cdef double _high_y
    cdef int judge(self, double x, double y) except -1

cdef class WithinDisc(_InPlane):
    cdef double _x
    cdef double _y
    cdef double _radius
    cdef int judge(self, double x, double y) except -1

cdef class WithinOutline(_InPlane):
    cdef readonly list xs
    cdef readonly list ys
    cdef int judge(self, double x, double y) except -1
