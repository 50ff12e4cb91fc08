from docstore.kernel.columns.encoding cimport (
    ESTIMATE, TOMBSTONE, WHOLE, ColumnForm, integer_in, plain_bytes, plain_record, plain_row,
    timestamp_order,
)
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport INT64, OBJECT, STRING, document_stop, name_end, part, same_bytes, value_end

cdef bytes _COLUMNS
cdef Py_ssize_t MAX_COLUMN_KEY_BYTES
cdef bytes _STATISTICS
cdef KeyWriter _out

cdef class Plain:
    cdef bytes family
    cdef bytes key
    cdef bytes name
    cdef bytes value
    cdef int name_code
    cdef int value_code
    cdef bytes stamp
    cdef bint read(self, bytes raw) except -1
    cdef bint _read_insert(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1

cdef class RowUpdate:
    cdef readonly dict keys
    cdef readonly list previous
    cdef readonly Py_ssize_t added
    cdef readonly Py_ssize_t size
    cdef readonly long long rows
    cdef readonly long long row_bytes
    cdef readonly long long rows_before
    cdef readonly long long bytes_before
    cdef bytes _prefix
    cdef Py_ssize_t _row_size
    cdef dict _pending
    cdef object _get
    cdef object _family
    cdef bytes _standing(self, bytes key)
    cdef int _count(self, bytes record, Py_ssize_t size, long long rows, long long row_count) except -1

cpdef bytes merged(bytes standing, bytes record, object merge)
cdef bint _is(bytes raw, Py_ssize_t at, Py_ssize_t end, bytes name) noexcept
