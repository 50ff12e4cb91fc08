cdef class WalkChecks:
    cdef object status
    cdef object end

cdef class Walk:
    cdef object _walk
    cdef object _options
    cdef bytes _start
    cdef bytes _end
    cdef bint _reverse
    cdef str _yields
    cdef bint _keys
    cdef bint _values
    cdef object _take_over
    cdef WalkChecks _checks
    cdef int _count
    cdef object _fast_walk
    cdef object _newest
    cdef bint _ended
    cdef bytes _move(self)
    cdef object _next_of_fast(self)
    cdef bint _is_below(self, object item)

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
    cpdef seek(self, bytes key)
