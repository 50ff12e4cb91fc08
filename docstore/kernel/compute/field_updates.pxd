from docstore.bson.number cimport integer_at
from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, DOUBLE, INT32, INT64, OBJECT, REGEX, bits_of, document_stop, double_at, name_end, part, value_end,
)

cdef int _SET
cdef int _INC
cdef int _UNSET
cdef int _PUSH
cdef int _ADD_TO_SET
cdef int _PULL
cdef int _LEAVE
cdef int _MIN
cdef int _MAX
cdef long long _ALL
cdef Py_ssize_t _LARGE_ARRAY

cdef class FieldChanges:
    cdef readonly frozenset names
    cdef readonly bint compares
    cdef readonly bint pushes
    cdef list _names
    cdef list _kinds
    cdef list _codes
    cdef list _values
    cdef list _members
    cdef list _keeps
    cdef int _count
    cdef bint _inserting
    cpdef bytes apply(self, bytes raw)
    cpdef bytes insert(self, bytes seed)
    cdef int _kind(self, Py_ssize_t place) except -1
    cdef int _place(self, bytes raw, Py_ssize_t at, Py_ssize_t end)
    cdef bytes _changed(self, int place, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end)
    cdef bytes _array(self, int place, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end)
    cdef list _joined(self, int place, list old)

cdef double _as_double(int code, bytes raw, Py_ssize_t at) noexcept
cpdef FieldChanges field_changes(bytes specification)
cdef bytes _field(int code, bytes name, bytes value)
