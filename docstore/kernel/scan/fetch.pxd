from docstore.bson.walk cimport part
from docstore.kernel.match.predicate cimport Predicate

cdef object _UNREAD
cdef Py_ssize_t _ID_BYTES
cdef Py_ssize_t _FIRST_CHUNK
cdef Py_ssize_t _READ_AHEAD_BYTES
cdef Py_ssize_t _SHORTEST_WALK
cdef Py_ssize_t _WIDEST_GAP
cdef Py_ssize_t _FEW_BYTES

cdef Py_ssize_t _number(bytes rid) except? -1

cdef class Examined:
    cdef public Py_ssize_t keys
    cdef public Py_ssize_t documents
    cdef public Py_ssize_t seeks
    cdef public bint ended_by_key

cdef class Fetching:
    cdef readonly bytes entry
    cdef object _entries
    cdef object _get
    cdef object _items
    cdef bytes _prefix
    cdef bint _once
    cdef bint _bare
    cdef set _seen
    cdef Examined _examined
    cdef list _chunk
    cdef list _whole
    cdef list _found
    cdef dict _walked
    cdef Py_ssize_t _at
    cdef Py_ssize_t _size
    cdef Py_ssize_t _largest
    cdef _read_ahead(self)
    cdef _walk_runs(self)
    cdef bint _ascending(self) except -1
    cdef Py_ssize_t _walk(self, bytes first, bytes last, Py_ssize_t room) except? -1
    cdef _read_records(self)
    cdef _record(self, bytes rid)
