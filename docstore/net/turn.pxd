cdef class Traffic:
    cdef public Py_ssize_t bytes_in
    cdef public Py_ssize_t bytes_out
    cdef public Py_ssize_t requests

cdef class Turn:
    cdef object _clock
    cdef list _held
    cdef object _last
    cdef object _loop
    cdef bint _scheduled
    cdef object _taken
    cdef double _until

    cpdef object take(self, object taker, bytes frame)
    cpdef object enqueue(self, object transport, bytes frame)
    cpdef object send(self)
    cdef object _schedule(self)
