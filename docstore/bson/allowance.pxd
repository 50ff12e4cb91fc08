cdef Py_ssize_t _remaining
cdef Py_ssize_t _looks
cpdef Py_ssize_t looks()
cpdef int spend(Py_ssize_t cost) except -1
cdef int _call_check() except -1
