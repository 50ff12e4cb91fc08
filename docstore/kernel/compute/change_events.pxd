from docstore.bson.walk cimport (
    ARRAY, BINARY, BOOL, DATE, INT32, INT64, NULL, OBJECT, OBJECT_ID, STRING, TIMESTAMP, document_stop, int32_at,
    int64_at, name_end, part, uint64_at, value_end
)
from docstore.kernel.keys.writer cimport KeyWriter

cpdef enum:
    INSERT = 0x69
    UPDATE = 0x75
    DELETE = 0x64

cdef class _Types:
    cdef unsigned long long bits
    cdef int size

cpdef tuple document_entry(bytes entry)
cpdef bytes event_token(unsigned long long timestamp, Py_ssize_t index, bytes uuid, bytes key)
cdef bytes _token(bytes data, _Types types)
cdef bint _put_fields(KeyWriter writer, bytes raw, _Types types) except -1
cdef int _kind(int code) noexcept
cdef bint _put_value(KeyWriter writer, bytes raw, int code, Py_ssize_t at, Py_ssize_t end, _Types types) except -1
cdef bint _put_number(KeyWriter writer, bint is_long, long long number, _Types types) except -1
cdef bint _put_text(KeyWriter writer, bytes raw, Py_ssize_t at, Py_ssize_t end, _Types types) except -1
cdef int _put_integer(KeyWriter writer, long long number) except -1
