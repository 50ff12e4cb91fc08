from docstore.bson.number cimport integer_at
from docstore.bson.walk cimport (
    DOUBLE, INT32, INT64, bits_of, document_stop, double_at, name_end, part, value_end,
)

cdef bytes UNCHANGED
cdef long long MAX_SAFE_SUMMAND
cdef long long MAX_SAFE_FACTOR
cdef Py_ssize_t LARGEST_ARRAY
cdef Py_ssize_t _ELEMENT_DIGITS

cdef bytes calculated(bytes raw, Py_ssize_t at, Py_ssize_t begin, int kind, bytes operand, bint multiplies)
cdef double _as_double(int code, bytes raw, Py_ssize_t at) noexcept
cdef bytes encoded(int code, bytes name, bytes value)
cdef bytes appended(bytes raw, Py_ssize_t begin, Py_ssize_t end, list members)
cdef bint is_element(bytes raw, Py_ssize_t at, Py_ssize_t end, Py_ssize_t number) noexcept
