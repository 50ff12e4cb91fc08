from docstore.bson.walk cimport INT64, document_stop, name_end, value_end
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter

cpdef enum:
    ASCENDING = 0
    DESCENDING = 1
    HASHED = 2

cdef KeyWriter _out

cdef class Side:
    cdef Py_ssize_t position
    cdef bint after
    cdef bytes cut

cdef class ScanBounds:
    cdef readonly bytes prefix
    cdef list _positions
    cdef list _makings
    cdef Side _low
    cdef Side _high
    cdef bint _turned
    cdef readonly Py_ssize_t listed
    cdef bytes _start(self, list values)
