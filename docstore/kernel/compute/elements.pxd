from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, BINARY, BOOL, DATE, DECIMAL, DOUBLE, INT32, INT64, OBJECT, OBJECT_ID, STRING, TIMESTAMP, document_stop,
    find, name_end, part, value_end,
)

from docstore.kernel.compute.new_values cimport LARGEST_ARRAY

cdef Py_ssize_t UNKNOWN
cdef Py_ssize_t _NOWHERE
cdef Py_ssize_t MAX_ELEMENT_CONDITIONS
cdef bytes _ITSELF
cdef int _EQUALITY

cdef class Equalities:
    cdef list _names
    cdef list _values
    cdef Py_ssize_t holds(self, bytes raw, int code, Py_ssize_t begin, Py_ssize_t end) except -9

cdef class MatchedElement:
    cdef readonly list paths
    cdef list _parts
    cdef list _itself
    cdef list _field
    cpdef Py_ssize_t of(self, bytes raw) except -9
    cdef Py_ssize_t _position(self, Py_ssize_t index, bytes raw) except -9

cpdef bint is_plain_value(int code) noexcept
cpdef Equalities equalities(bytes raw, Py_ssize_t start, Py_ssize_t limit)
cpdef tuple array_filter(bytes raw)
cpdef MatchedElement matched_element(bytes filter_)
cdef Py_ssize_t _first(Equalities condition, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -9
cdef Equalities _all_of_one(bytes raw, int code, Py_ssize_t start, Py_ssize_t limit)
