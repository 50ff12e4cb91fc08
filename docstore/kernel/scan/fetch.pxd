from docstore.bson.walk cimport part
from docstore.kernel.match.predicate cimport Predicate

cdef object _UNREAD
cdef Py_ssize_t _ID_BYTES
cdef Py_ssize_t _FIRST_CHUNK
cdef Py_ssize_t _READ_AHEAD_BYTES
cdef Py_ssize_t _SHORTEST_WALK
cdef Py_ssize_t _WIDEST_GAP
cdef Py_ssize_t MAX_STEP_BYTES
cdef Py_ssize_t _WIDEST_ORDER
cpdef enum:
    LARGEST_CHUNK = 256

cdef Py_ssize_t _number(bytes entry) except? -1
cdef bytes _rid_of(bytes entry)

cdef class Examined:
    cdef public Py_ssize_t keys
    cdef public Py_ssize_t documents
    cdef public Py_ssize_t seeks
    cdef public bint ended_by_key

cdef class Fetching:
    cdef readonly bytes entry
    cdef object _entries
    cdef object _get
    cdef object _walks
    cdef bytes _prefix
    cdef bint _once
    cdef bint _bare
    cdef set _visited_ids
    cdef Examined _examined
    cdef list _chunk
    cdef list _records
    cdef list _order
    cdef Py_ssize_t _at
    cdef Py_ssize_t _size
    cdef Py_ssize_t _largest
    cdef _read_ahead(self)
    cdef _walk_runs(self)
    cdef list _in_order(self)
    cdef Py_ssize_t _walk(self, object walk, Py_ssize_t first, Py_ssize_t end, Py_ssize_t room) except? -1
    cdef _read_records(self)
    cdef _record(self, bytes rid)
