from docstore.bson.number cimport compare_numbers
from docstore.bson.walk cimport (
    ARRAY, BINARY, BOOL, CODE, CODE_WITH_SCOPE, DATE, DB_POINTER, DECIMAL, DOUBLE, INT32, INT64, MAX_KEY, MAX_NESTING, MIN_KEY, NULL,
    OBJECT, OBJECT_ID, REGEX, STRING, SYMBOL, TIMESTAMP, UNDEFINED,
)
from docstore.bson.walk cimport document_stop, int64_at, name_end, uint64_at, value_end

cpdef enum:
    CLASS_MIN_KEY = 0x10
    CLASS_UNDEFINED = 0x18
    CLASS_NULL = 0x20
    CLASS_NUMBER = 0x28
    CLASS_STRING = 0x40
    CLASS_OBJECT = 0x48
    CLASS_ARRAY = 0x50
    CLASS_BINARY = 0x58
    CLASS_OBJECT_ID = 0x60
    CLASS_BOOL = 0x68
    CLASS_DATE = 0x70
    CLASS_TIMESTAMP = 0x78
    CLASS_REGEX = 0x80
    CLASS_DB_POINTER = 0x88
    CLASS_CODE = 0x90
    CLASS_CODE_WITH_SCOPE = 0x98
    CLASS_MAX_KEY = 0xF0

cdef bytes _class_table

cdef int class_of(int code) except -1
cdef int compare_at(int a_code, bytes a, Py_ssize_t a_at, Py_ssize_t a_end, int b_code, bytes b, Py_ssize_t b_at, Py_ssize_t b_end, int depth) except? -9
cdef int compare_integers(long long a, long long b) noexcept
cdef int compare_bytes(bytes a, Py_ssize_t a_at, Py_ssize_t a_end, bytes b, Py_ssize_t b_at, Py_ssize_t b_end) noexcept
cdef int _compare_regexes(bytes a, Py_ssize_t a_at, Py_ssize_t a_end, bytes b, Py_ssize_t b_at, Py_ssize_t b_end) except? -9
cdef int _compare_scoped(bytes a, Py_ssize_t a_at, Py_ssize_t a_end, bytes b, Py_ssize_t b_at, Py_ssize_t b_end, int depth) except? -9
cdef int _compare_fields(bytes a, Py_ssize_t a_start, Py_ssize_t a_limit, bytes b, Py_ssize_t b_start, Py_ssize_t b_limit, bint named, int depth) except? -9
