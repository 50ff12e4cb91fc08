cdef class Metrics:
    cdef dict _costs
    cdef dict _totals
    cdef dict _failed
    cdef public object refused
    cdef public object unknown

    cpdef object add(self, str namespace, str command, double seconds)
