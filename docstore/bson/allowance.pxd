cdef Py_ssize_t _left
cpdef int spend(Py_ssize_t cost) except -1
cdef int _looked() except -1
