from docstore.bson.number cimport integer_at
from docstore.bson.walk cimport DOUBLE, INT32, INT64, OBJECT, bits_of, document_stop, double_at, name_end, part, value_end

cdef class FieldChanges:
    cdef readonly frozenset names
    cdef list _names
    cdef list _increments
    cdef list _codes
    cdef list _values
    cdef int _count
    cdef int _place(self, bytes raw, Py_ssize_t at, Py_ssize_t end)
    cdef bytes _changed(self, int place, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end)

cdef double _as_double(int code, bytes raw, Py_ssize_t at) noexcept
cdef bytes _field(int code, bytes name, bytes value)
