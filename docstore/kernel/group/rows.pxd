from docstore.bson.walk cimport NULL, part, value_end
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport ConstantSource, Place, Source
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
    cdef Place _found
    cdef KeyWriter _out
    cdef bytes _sort_key(self, Place found)
    cdef bytes _row(self, bytes document, Place found)
    cdef int _append(self, Place found) except -1

cdef class RowGroup:
    cdef readonly Py_ssize_t taken
    cdef readonly bytes first
    cdef readonly bytes last
    cdef bytes _last_key
    cdef Rows _rows
    cdef list _states
    cdef Place _found
    cdef Place _key
    cdef int _take(self, bytes key, bytes row) except -1

cdef Py_ssize_t _place(bytes row, Py_ssize_t at, Place found) except -1
