from docstore.kernel.group.sources cimport ValueRef, Source
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, name_end, same_bytes, value_end

cdef class TopFields:
    cdef list _names
    cdef bint _exclude
    cdef bint _in_place
    cdef list _added
    cdef list _sources
    cdef bytes _hints
    cdef bytes _added_hints
    cdef dict _positions
    cdef dict _added_positions
    cdef bytearray _placed
    cdef ValueRef _value
    cdef KeyWriter _out
    cdef unsigned long long _all
    cpdef bytes apply(self, bytes raw)
    cdef int _add(self, Py_ssize_t position, bytes raw) except -1

cdef class FieldTree:
    cdef bint _keep_others
    cdef list _names
    cdef bytes _hints
    cdef dict _positions
    cdef list _below
    cdef list _stays
    cdef KeyWriter _out
    cpdef bytes apply(self, bytes raw)
    cdef int _put_document(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, KeyWriter out) except -1
    cdef int _put_value(self, bytes raw, int code, Py_ssize_t start, Py_ssize_t limit, KeyWriter out) except -1

cdef int _hint(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bytes _hints_of(list[bytes] names)
cdef dict _positions_of(list[bytes] names)
cdef Py_ssize_t _place_of(
    bytes raw, Py_ssize_t at, Py_ssize_t end, list[bytes] names, bytes hints, dict positions
) except? -1
