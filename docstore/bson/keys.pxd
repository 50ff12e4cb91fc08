from docstore.bson.number cimport integer_at
from docstore.bson.order cimport (
    CLASS_ARRAY, CLASS_BINARY, CLASS_BOOL, CLASS_CODE, CLASS_CODE_WITH_SCOPE, CLASS_DATE, CLASS_DB_POINTER, CLASS_NUMBER,
    CLASS_OBJECT, CLASS_OBJECT_ID, CLASS_REGEX, CLASS_STRING, CLASS_TIMESTAMP, class_of,
)
from docstore.bson.walk cimport DECIMAL, DOUBLE, STRING, document_stop, double_at, name_end, value_end

cdef enum:
    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _POSITIVE = 0x38

cdef int append_key(bytearray out, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_reversed(bytearray out, bytes raw, Py_ssize_t at, int flip) except -1
cdef int _append_text(bytearray out, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_regex(bytearray out, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_scoped(bytearray out, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_fields(bytearray out, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
cdef int _append_members(bytearray out, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
cdef int _append_number(bytearray out, int code, bytes raw, Py_ssize_t at) except -1
cdef int _append_double(bytearray out, double number) except -1
cdef int _append_bits(bytearray out, double magnitude, int flip) except -1
