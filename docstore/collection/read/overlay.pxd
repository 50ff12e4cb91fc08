cdef class PendingReader:
    cdef public object batch
    cdef public object engine
