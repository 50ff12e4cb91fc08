from libc.math cimport hypot

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

cdef bint _holds(tuple area, double left, double low, double right, double high) except -1
cdef bint _meets(tuple area, double left, double low, double right, double high) except -1
