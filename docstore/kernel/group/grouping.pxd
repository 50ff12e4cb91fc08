from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport ConstantSource, PathSource, ValueRef, Source
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport ARRAY, NULL, UNDEFINED, document_stop, name_end, part, same_bytes, value_end

cdef class Group:
    cdef int code
    cdef bytes raw
    cdef State first

cdef class KnownKey:
    cdef int code
    cdef bytes raw
    cdef long long mark
    cdef Group group

cdef class KnownKeys:
    cdef list _slots
    cdef Py_ssize_t _mask
    cdef Py_ssize_t _count
    cdef Group find(self, ValueRef value)

cdef long long _mark(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bint _same(bytes key, bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept

cdef class Grouping:
    cdef readonly Py_ssize_t memory
    cdef Source _key
    cdef list _names
    cdef list _sources
    cdef list _repeats
    cdef list _starts
    cdef object _finish
    cdef PathSource _unwind
    cdef dict _groups
    cdef Group _only
    cdef bint _single
    cdef KnownKeys _known_keys
    cdef ValueRef _value
    cdef ValueRef _member
    cdef KeyWriter _out
    cdef int _take_members(self, bytes document) except -1
    cdef int _take(self, bytes document, ValueRef member) except -1
    cdef Group _group(self, ValueRef value)
    cdef State _started(self)
    cdef bytes _document(self, State first, bint partly)
    cdef int _begin(self, int code, bytes raw) except -1
    cdef int _append(self, bytes name, tuple value) except -1
    cdef bytes _ended(self)
