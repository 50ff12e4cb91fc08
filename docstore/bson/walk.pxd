from docstore.bson.allowance cimport spend

cdef Py_ssize_t _BLOCK

cpdef enum:
    DOUBLE = 0x01
    STRING = 0x02
    OBJECT = 0x03
    ARRAY = 0x04
    BINARY = 0x05
    UNDEFINED = 0x06
    OBJECT_ID = 0x07
    BOOL = 0x08
    DATE = 0x09
    NULL = 0x0A
    REGEX = 0x0B
    DB_POINTER = 0x0C
    CODE = 0x0D
    SYMBOL = 0x0E
    CODE_WITH_SCOPE = 0x0F
    INT32 = 0x10
    TIMESTAMP = 0x11
    INT64 = 0x12
    DECIMAL = 0x13
    MAX_KEY = 0x7F
    MIN_KEY = 0xFF
    MAX_NESTING = 250
    _SPENT_AT_ONCE = 65536

cdef int int32_at(bytes raw, Py_ssize_t at) noexcept
cdef long long int64_at(bytes raw, Py_ssize_t at) noexcept
cdef unsigned long long uint64_at(bytes raw, Py_ssize_t at) noexcept
cdef double double_at(bytes raw, Py_ssize_t at) noexcept
cdef unsigned long long bits_of(double number) noexcept
cdef bytes part(bytes raw, Py_ssize_t at, Py_ssize_t end)
cdef Py_ssize_t document_stop(bytes raw, Py_ssize_t start, Py_ssize_t limit) except? -2
cdef Py_ssize_t name_end(bytes raw, Py_ssize_t at, Py_ssize_t stop) except? -2
cdef Py_ssize_t value_end(bytes raw, int code, Py_ssize_t at, Py_ssize_t stop) except? -2
cdef Py_ssize_t find(bytes raw, Py_ssize_t start, Py_ssize_t limit, bytes name) except? -2
cdef str name_text(bytes raw, Py_ssize_t begin, Py_ssize_t end)
cdef bint same_bytes(bytes raw, Py_ssize_t at, bytes other, Py_ssize_t begin, Py_ssize_t size) noexcept
cdef Py_ssize_t same_front(bytes raw, bytes other, Py_ssize_t at, Py_ssize_t most) noexcept
cdef Py_ssize_t same_end(bytes raw, bytes other, Py_ssize_t most) noexcept
