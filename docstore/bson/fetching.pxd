cdef class Examined:
    cdef public Py_ssize_t keys
    cdef public Py_ssize_t documents

cdef class Fetching:
    cdef object _entries
    cdef object _get
    cdef object _values
    cdef bytes _prefix
    cdef bint _once
    cdef bint _bare
    cdef set _seen
    cdef Examined _examined
    cdef list _chunk
    cdef list _found
    cdef Py_ssize_t _at
    cdef Py_ssize_t _size
    cdef _read_ahead(self)
    cdef _walk_records(self, bytes first, bytes last)
    cdef _read_records(self)
    cdef _record(self, bytes rid)
