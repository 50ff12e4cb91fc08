from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport OBJECT, document_stop, find, name_end, name_text, part, value_end
from docstore.kernel.keys.writer cimport KeyWriter

cdef class Column:
    cdef readonly bytes name
    cdef Py_ssize_t place
    cdef Py_ssize_t value
    cdef Py_ssize_t end
    cdef bint ended
    cdef bytes _raw
    cdef Py_ssize_t _stop
    cdef int advance(self) except -1
    cdef bint is_at(self, Py_ssize_t place, Py_ssize_t value) noexcept

cdef Column _column(bytes bucket, Py_ssize_t at, Py_ssize_t named)
