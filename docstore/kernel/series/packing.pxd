from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, name_end, name_text, part, value_end
from docstore.kernel.keys.writer cimport KeyWriter

cdef class FieldColumn:
    cdef bytes name
    cdef KeyWriter out
    cdef int least_code
    cdef bytes least
    cdef int greatest_code
    cdef bytes greatest
    cdef Py_ssize_t position
    cdef Py_ssize_t last
    cdef Py_ssize_t walk
    cdef str text(self)

cdef class Columns:
    cdef list _columns
    cdef dict _by_name
    cdef bytes _left_out
    cdef object _alike
    cdef object _extreme
    cdef Py_ssize_t _walks
    cpdef bint fits(self, bytes raw) except -1
    cpdef int add(self, bytes raw, Py_ssize_t place) except -1
    cdef FieldColumn _made(self, bytes name, tuple least, tuple greatest)
    cdef FieldColumn _find(self, bytes raw, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t expected)
    cdef int _widen(self, FieldColumn column, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef bint _is_name(bytes name, bytes raw, Py_ssize_t begin, Py_ssize_t end) noexcept
