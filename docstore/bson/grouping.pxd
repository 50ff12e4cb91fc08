from docstore.bson.group_states cimport State
from docstore.bson.group_values cimport PathSource, Place, Source
from docstore.bson.walk cimport ARRAY, NULL, UNDEFINED, document_stop, name_end, part, value_end

cdef class KnownKey:
    cdef int code
    cdef bytes raw
    cdef long long mark
    cdef list states

cdef class KnownKeys:
    cdef list _slots
    cdef Py_ssize_t _mask
    cdef Py_ssize_t _count
    cdef list find(self, Place found)

cdef long long _mark(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bint _same(bytes one, bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept

cdef class Grouping:
    cdef readonly Py_ssize_t held
    cdef Source _key
    cdef list _sources
    cdef list _starts
    cdef PathSource _unwind
    cdef dict _groups
    cdef list _keys
    cdef KnownKeys _known
    cdef Place _found
    cdef Place _member
    cdef int _take_members(self, bytes document) except -1
    cdef int _take(self, bytes document, Place member) except -1
