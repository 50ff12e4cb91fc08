from docstore.kernel.keys.writer cimport KeyWriter, take_contents, writer
from docstore.bson.number cimport integer_at
from docstore.bson.order cimport (
    CLASS_ARRAY, CLASS_BINARY, CLASS_BOOL, CLASS_CODE, CLASS_CODE_WITH_SCOPE, CLASS_DATE, CLASS_DB_POINTER, CLASS_NUMBER,
    CLASS_OBJECT, CLASS_OBJECT_ID, CLASS_REGEX, CLASS_STRING, CLASS_TIMESTAMP, class_of,
)
from docstore.bson.walk cimport (
    DECIMAL, DOUBLE, STRING, bits_of, document_stop, double_at, find, name_end, uint64_at, value_end,
)

cdef enum:
    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _POSITIVE = 0x38

cdef int append_key(KeyWriter out, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_text(KeyWriter out, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_regex(KeyWriter out, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_scoped(KeyWriter out, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _append_fields(KeyWriter out, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
cdef int _append_members(KeyWriter out, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
cdef int _append_number(KeyWriter out, int code, bytes raw, Py_ssize_t at) except -1
cdef int _append_double(KeyWriter out, double number) except -1
cdef int _append_decimal(KeyWriter out, object number) except -1
