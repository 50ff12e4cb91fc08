from libc.math cimport asin, atan, sqrt, tan

from docstore.kernel.geometry.curve cimport cut_behind, gathered, merged, number_at, put_number, spread, start_of
from docstore.kernel.geometry.nearby cimport CellDistances
from docstore.kernel.geometry.points cimport PlainPoint, Vector
from docstore.kernel.match.path_predicates cimport stands_at

cdef int _LEVELS
cdef int _LEVEL_BITS
cdef unsigned long long _ALL
cdef unsigned long long _OF_FACE
cdef double _QUARTER
cdef double _PI
cdef double _SLACK
cdef int _FLAT_LEVEL
cdef double _HALF_DIAGONAL
cdef double _AREA
cdef double _ROUNDING
cdef bytes _KEY
cdef Py_ssize_t _KEY_BYTES
cdef Py_ssize_t _NUMBER_AT
cdef int _OUTSIDE
cdef int _MEETS
cdef int _INSIDE

cdef class CellCircle:
    cdef double x
    cdef double y
    cdef double z
    cdef double radius
    cdef put_around(self, int face, long long column, long long row, int level)

cdef double _chord(double depth, double across, double along, double u, double w) noexcept

cdef class _Cap:
    cdef Vector _centre
    cdef double _radius
    cdef CellCircle _around
    cdef int judge(self, int face, long long column, long long row, int level) except -1

cdef unsigned long long _curve_position(object cell) except? 1
cdef _write(bytearray buffer, unsigned long long position, int level)
cdef bytes _key(bytearray buffer, unsigned long long position, int level)
cdef bytes _behind_key(bytearray buffer, unsigned long long position, int level)
cdef long long _step(double slope, long long side) noexcept

cdef class PointKeys:
    cdef list _names
    cdef int _finest
    cdef PlainPoint _point
    cdef Vector _vector
    cdef bytearray _buffer
    cpdef bytes of_place(self, double longitude, double latitude)

cdef class SphereDistances(CellDistances):
    cdef Vector _centre
    cdef CellCircle _around
    cdef double _unit
    cdef bint measure(self, bytes entry, Py_ssize_t at) except -1
    cdef double farthest(self) except -1
