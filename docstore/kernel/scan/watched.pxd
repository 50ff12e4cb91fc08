cdef class Watched:
    cdef object _source
    cdef object _at_end
    cdef bytes _floor
    cdef bint _second
    cdef bint _pairs
    cdef object _newest
    cdef bint _ended
