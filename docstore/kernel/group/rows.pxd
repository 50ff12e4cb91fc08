from docstore.bson.walk cimport NULL, part, value_end
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport ConstantSource, ValueRef, Source
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter

cdef enum:
    _STORED = 0
    _CONSTANT = 1
    _OF_KEY = 2
    _AS_BEFORE = 3

cdef class Rows:
    cdef Source _key
    cdef list _sources
    cdef list _kinds
    cdef object _key_of
    cdef object _check
    cdef ValueRef _value
    cdef KeyWriter _out
    cdef bytes _sort_key(self, ValueRef value)
    cdef bytes _row(self, bytes document, ValueRef value)
    cdef int _append(self, ValueRef value) except -1

cdef class RowGroup:
    cdef readonly Py_ssize_t count
    cdef readonly bytes first
    cdef readonly bytes last
    cdef bytes _last_key
    cdef Rows _rows
    cdef list _states
    cdef ValueRef _value
    cdef ValueRef _key
    cdef int _take(self, bytes key, bytes row) except -1

cdef Py_ssize_t _locate_value(bytes row, Py_ssize_t at, ValueRef result) except -1
