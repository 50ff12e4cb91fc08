cdef class Watched:
    cdef object _source
    cdef object _at_end
    cdef bytes _floor
    cdef bint _second
    cdef bint _pairs
    cdef object _newest
    cdef bint _ended

cdef class Moved:
    cdef object _walk
    cdef object _ranges
    cdef object _check
    cdef bint _values
    cdef bytes _end
    cdef object _options
    cdef bytes _empty_from
    cdef bytes _stands_at

cdef class Sought:
    cdef object _walk
    cdef object _check
    cdef bint _pairs
    cdef object _options
    cdef bint _begins
    cpdef seek(self, bytes place)
