from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport ARRAY, DATE, OBJECT, document_stop, find, name_end, part, value_end
from docstore.kernel.match.path_predicates cimport is_name
from docstore.kernel.keys.writer cimport KeyWriter

cdef class Extremes:
    cdef int least_code
    cdef bytes least
    cdef int greatest_code
    cdef bytes greatest
    cdef Extremes copy(self)

cdef class FieldColumn:
    cdef bytes name
    cdef bytes bucket
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef KeyWriter out
    cdef Extremes now
    cdef Extremes before
    cdef Py_ssize_t position
    cdef Py_ssize_t last
    cdef Py_ssize_t walk

cdef class Columns:
    cdef list _columns
    cdef dict _by_name
    cdef bytes _left_out
    cdef object _alike
    cdef object _extreme
    cdef Py_ssize_t _walks
    cdef bint load(self, bytes bucket, Py_ssize_t data, Py_ssize_t least, Py_ssize_t greatest) except -1
    cdef bint fits(self, bytes raw) except -1
    cdef int add(self, bytes raw, Py_ssize_t index) except -1
    cdef int put_least(self, KeyWriter out, bytes time_field, long long begin, bint before) except -1
    cdef int put_greatest(self, KeyWriter out, bint before) except -1
    cdef int put_values(self, KeyWriter out, bint before) except -1
    cdef int put_changes(self, KeyWriter out, bytes time_field) except -1
    cdef int _put_changed(self, KeyWriter out, bytes time_field, bint greatest) except -1
    cdef FieldColumn _add_column(self, bytes name, Extremes now)
    cdef FieldColumn _find(self, bytes raw, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t expected)
    cdef int _widen(self, Extremes now, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef int _put_name(KeyWriter out, bytes name) except -1
cdef int _put_field(KeyWriter out, int code, bytes name, bytes value) except -1
cdef Py_ssize_t _begin(KeyWriter out, bytes before, bytes name) except -1
cdef int _end_unless_empty(KeyWriter out, Py_ssize_t at, Py_ssize_t named) except -1
cdef Py_ssize_t _field_at(bytes raw, Py_ssize_t document, Py_ssize_t expected, bytes name) except? -2
