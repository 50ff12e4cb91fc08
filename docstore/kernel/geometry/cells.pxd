from libc.math cimport asin, sqrt, tan

from docstore.kernel.geometry.points cimport Vector
from docstore.kernel.scan.index_bounds cimport field_end

cdef int _LEVELS
cdef int _LEVEL_BITS
cdef double _QUARTER
cdef double _PI
cdef double _SLACK
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

cdef unsigned long long _spread(unsigned long long number) noexcept
cdef unsigned long long _gathered(unsigned long long number) noexcept
cdef _write(bytearray buffer, unsigned long long place, int level)
cdef bytes _key(bytearray buffer, unsigned long long place, int level)
cdef bytes _behind_key(bytearray buffer, unsigned long long place, int level)
cdef bytes _start_of(bytearray buffer, Py_ssize_t size)

cdef class Nearby:
    cdef readonly list waiting
    cdef set _known
    cdef Py_ssize_t _number
    cdef Vector _centre
    cdef CellCircle _around
    cdef double _unit
    cdef double _least
    cdef double _greatest
    cdef Py_ssize_t _skipped
    cdef list _masks
    cdef double _low
    cdef double _high
    cdef _measure(self, bytes entry)
