from libc.math cimport hypot

from docstore.kernel.geometry.curve cimport (
    cut_behind, gathered, interleaved, merged, number_at, put_number, start_of,
)
from docstore.kernel.geometry.nearby cimport CellDistances
from docstore.kernel.geometry.points cimport PlainPoint, Vector
from docstore.kernel.geometry.regions cimport WithinOutline
from docstore.kernel.match.path_predicates cimport stands_at

cdef int _BITS
cdef unsigned long long _ALL
cdef double _DEGREE
cdef bytes _KEY
cdef Py_ssize_t _KEY_BYTES
cdef Py_ssize_t _NUMBER_AT
cdef double _ROUNDING

cdef class Covering:
    cdef double _low
    cdef double _side
    cdef double _spare
    cdef int _bits
    cdef list _areas
    cdef list _cells
    cdef object _waiting
    cdef _sort_out(self, long long column, long long row, int level)

cdef bint _holds(tuple area, double low_x, double low_y, double high_x, double high_y) except -1
cdef bint _meets(tuple area, double low_x, double low_y, double high_x, double high_y) except -1

cdef bint _edges_meet(WithinOutline outline, double low_x, double low_y, double high_x, double high_y) except -1

cdef class SquareKeys:
    cdef list _names
    cdef double _low
    cdef double _high
    cdef int _bits
    cdef PlainPoint _point
    cdef bytearray _buffer
    cpdef bytes of_place(self, double x, double y)

cdef class PlaneDistances(CellDistances):
    cdef double _x
    cdef double _y
    cdef double _low
    cdef double _side
    cdef double _spare
    cdef int _bits
    cdef double _unit
    cdef double _across
    cdef double _along
    cdef Vector _centre
    cdef Vector _vector
    cdef bint measure(self, bytes entry, Py_ssize_t at) except -1
    cdef double farthest(self) except -1
