from docstore.kernel.group.sources cimport Place, Source
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport document_stop, name_end, value_end

cdef class TopFields:
    cdef list _names
    cdef bint _exclude
    cdef bint _in_place
    cdef list _added
    cdef list _sources
    cdef bytearray _placed
    cdef Place _found
    cdef KeyWriter _out
    cpdef bytes apply(self, bytes raw)
    cdef int _add(self, Py_ssize_t position, bytes raw) except -1

cdef Py_ssize_t _place_of(bytes raw, Py_ssize_t at, Py_ssize_t end, list[bytes] names) noexcept
