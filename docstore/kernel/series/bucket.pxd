from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport DATE, OBJECT, OBJECT_ID, document_stop, find, int64_at, name_end, value_end
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.series.packing cimport Columns

cpdef enum:
    TAKEN = 0
    COUNT = 1
    SIZE = 2
    FORWARD = 3
    BACKWARD = 4
    SCHEMA = 5

cdef KeyWriter _WRITER

cdef class Rules:
    cdef bytes time_field
    cdef bytes meta_field
    cdef long long span
    cdef long long rounding
    cdef Py_ssize_t most_measurements
    cdef Py_ssize_t most_bytes
    cdef object alike
    cdef object extreme

cdef class Bucket:
    cdef readonly bytes identity
    cdef readonly tuple meta
    cdef public object lane
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly list positions
    cdef readonly int full
    cdef readonly bytes rid
    cdef readonly bytes stored
    cdef long long _begin
    cdef Columns _columns
    cdef Rules _rules
    cpdef int take(self, bytes raw, long long time) except -1
    cpdef bytes document(self)
    cpdef bytes update(self)
    cdef int _write(self, KeyWriter out, bint before) except -1
    cdef bint load(self, bytes raw) except -1

cdef Py_ssize_t _document_at(bytes raw, Py_ssize_t document, bytes name) except? -2
