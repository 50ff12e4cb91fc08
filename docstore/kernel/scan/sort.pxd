from docstore.kernel.keys.pattern cimport KeyPattern

cdef class FirstDocuments:
    cdef KeyPattern _pattern
    cdef Py_ssize_t _limit
    cdef list _documents
    cdef bytes _worst
