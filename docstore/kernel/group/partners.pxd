from docstore.bson.walk cimport ARRAY, NULL, OBJECT, REGEX, UNDEFINED, find
from docstore.kernel.keys.pattern cimport KeyPattern
from docstore.kernel.keys.writer cimport KeyWriter

cdef Py_ssize_t _LARGE
cdef Py_ssize_t MAX_REACHED_DOCUMENTS
cdef Py_ssize_t MAX_STEP_BYTES
cdef frozenset _NOT_BY_KEYS

cdef class KeyedDocuments:
    cdef readonly Py_ssize_t size
    cdef readonly list documents
    cdef KeyPattern _pattern
    cdef dict _by_key
    cdef int _add_position(self, bytes key) except -1
    cpdef list[bytes] with_key(self, bytes key)

cdef class PartnerJoin:
    cdef bytes _name
    cdef bint _unwinds
    cdef bint _keeps_lonely
    cdef KeyWriter _out
    cdef Py_ssize_t _join(self, bytes document, list[bytes] partners, list[bytes] results) except? -2
    cdef Py_ssize_t _append_all(self, bytes document, list[bytes] partners, list[bytes] results) except? -2
    cdef int _begin(self, bytes document, int code) except -1
    cdef Py_ssize_t _append(self, list[bytes] results) except? -2

cdef int _lead_to(object leads, set[bytes] visited_keys, object frontier) except -1
cdef bint _are_by_keys(object leads) except -1
