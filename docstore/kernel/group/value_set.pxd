from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, find, name_end, part, value_end
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter

cdef class ValueSet:
    cdef readonly dict by_key
    cdef readonly Py_ssize_t size
    cdef list _names
    cdef list _positions
    cdef object _fold
    cdef KeyWriter _out
    cdef int _take(self, bytes raw, int code, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) except -1
    cdef int _take_members(
        self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t depth, Py_ssize_t position
    ) except -1
    cdef int _add_value(self, bytes raw, int code, Py_ssize_t at, Py_ssize_t end) except -1

cdef Py_ssize_t _PER_VALUE
