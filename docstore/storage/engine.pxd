cdef class Batch:
    cdef public tuple changes
    cdef public list ranges
    cdef public object urgency
