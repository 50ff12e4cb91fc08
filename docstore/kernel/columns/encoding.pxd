from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.columns.murmur3 cimport murmur3_place
from docstore.bson.walk cimport BINARY, INT32, INT64, STRING, int32_at, part, uint64_at

cpdef enum:
    TOMBSTONE = 0x01
    EXPIRING = 0x02
    ESTIMATE = 0x40
    WHOLE = 0x80
    PLAIN_NAMES = 1
    TEXT_NAMES = 2
    ASCII_NAMES = 3
    LONG_NAMES = 4
    TIME_UUID_NAMES = 5

cdef unsigned long long _MASK
cdef unsigned long long _SIGN
cdef object LONG_MIN
cdef Py_ssize_t MAX_COLUMN_KEY_BYTES
cdef bytes _END
cdef bytes _ESCAPED
cdef bytes _NAME
cdef bytes _VALUE
cdef bytes _TIMESTAMP
cdef bytes _TTL

cdef class ColumnForm:
    cdef readonly int kind
    cdef readonly bint as_text
    cdef KeyWriter _out
    cpdef bytes encode(self, int code, bytes raw)
    cdef bytes _encode_long(self, int code, bytes raw)
    cdef bytes _encode_time_uuid(self, int code, bytes raw)
    cpdef bytes document(self, bytes key, Py_ssize_t at, bytes record, long long now)
    cdef int _put_name(self, bytes key, Py_ssize_t at) except -1
    cdef int _put_bytes(self, bytes field, bytes data, bint as_text) except -1
    cdef int _put_text(self, bytes field, bytes data) except -1

cpdef bytes escape(bytes value)
cpdef bytes plain_bytes(int code, bytes raw)
cpdef bytes plain_row(int code, bytes raw)
cpdef bytes plain_record(int code, bytes raw, bytes stamp, Py_ssize_t most)
cpdef int timestamp_order(bytes record, bytes other) noexcept
cpdef bint is_live(bytes record, long long hidden, long long now) noexcept
cdef bint _is_text(bytes data) except -1
cdef unsigned long long _high_first(bytes raw, Py_ssize_t at, int width) noexcept
cdef long long integer_in(bytes record, Py_ssize_t at, int width) noexcept
