from docstore.kernel.scan.fetch cimport Examined
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.order cimport (
    CLASS_BINARY, CLASS_BOOL, CLASS_CODE, CLASS_DATE, CLASS_DB_POINTER, CLASS_MAX_KEY, CLASS_MIN_KEY, CLASS_NULL,
    CLASS_OBJECT_ID, CLASS_REGEX, CLASS_STRING, CLASS_TIMESTAMP, CLASS_UNDEFINED,
)
from docstore.bson.walk cimport (
    BINARY, BOOL, CODE, CODE_WITH_SCOPE, DATE, DB_POINTER, DECIMAL, DOUBLE, INT32, INT64, MAX_KEY, MIN_KEY, NULL,
    OBJECT, OBJECT_ID, REGEX, STRING, SYMBOL, TIMESTAMP, UNDEFINED, bits_of, double_at, find, int64_at,
)

cpdef enum:
    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _TRUE = 0x69
    ABSENT_MARK = 0x80
    MINUS_ZERO_MARK = 0x81
    OPAQUE_MARK = 0xFF

cdef unsigned long long _NAN_BITS
cdef unsigned long long _SIGN
cdef double _TWO_TO_63
cdef Py_ssize_t _ID_BYTES

cdef class Covering:
    cdef object _items
    cdef list _names
    cdef list _masks
    cdef list _tree
    cdef bint _flat
    cdef bint _is_id
    cdef Py_ssize_t _skipped
    cdef object _get
    cdef bytes _prefix
    cdef Examined _examined
    cdef KeyWriter _out
    cdef set _visited_ids
    cdef bytes document_of(self, bytes key, bytes marks)
    cdef bytes _flat_document(self, bytes key, bytes marks)
    cdef bytes _nested_document(self, bytes key, bytes marks)

cdef int mark_of(int code, bytes raw, Py_ssize_t at) except -1
cdef int _double_mark(double number) except -1
cdef bint _is_whole(double number) noexcept
cpdef bytes identity_marks(bytes raw)
cdef Py_ssize_t append_element(
    KeyWriter out, bytes name, bytes key, Py_ssize_t at, int mask, int mark,
) except -1
cdef Py_ssize_t _append_rare(KeyWriter out, Py_ssize_t slot, bytes key, Py_ssize_t at, int mask, int kind) except -1
cdef Py_ssize_t _append_number(
    KeyWriter out, Py_ssize_t slot, bytes key, Py_ssize_t at, int mask, int kind, int mark,
) except -1
cdef Py_ssize_t _append_double(KeyWriter out, Py_ssize_t slot, unsigned long long bits, Py_ssize_t at) except -1
cdef Py_ssize_t _append_integer(
    KeyWriter out, Py_ssize_t slot, unsigned long long magnitude, bint negative, int mark, Py_ssize_t at,
) except -1
cdef Py_ssize_t _append_string(KeyWriter out, bytes key, Py_ssize_t at, int mask) except -1
cdef Py_ssize_t _append_text(KeyWriter out, bytes key, Py_ssize_t at, int mask) except -1
cdef Py_ssize_t _append_bytes(KeyWriter out, bytes key, Py_ssize_t at, Py_ssize_t size, int mask) except -1
cdef unsigned long long _number_at(bytes key, Py_ssize_t at, int width, int mask) noexcept
cdef double _double_of(unsigned long long bits) noexcept
