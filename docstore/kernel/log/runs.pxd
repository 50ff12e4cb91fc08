from docstore.bson.walk cimport BINARY, BOOL, DATE, INT32, INT64, OBJECT, STRING, TIMESTAMP, document_stop, find, int32_at, int64_at, name_end, part, uint64_at, value_end
from docstore.kernel.keys.writer cimport KeyWriter, give_back, writer
from docstore.kernel.log.entries cimport _timestamp_key, session_row
from docstore.kernel.log.undo cimport DocumentChanges, LogBatch, put_undo

cdef long long _NO_TERM
cpdef enum:
    INSERT = 0x69
    UPDATE = 0x75
    DELETE = 0x64
cdef Py_ssize_t MAX_RUN_BYTES
cdef Py_ssize_t _UUID_BYTES
cdef list[bytes] _FIELDS
cdef list[int] _CODES

cdef enum:
    _OP
    _UI
    _O
    _O2
    _TS
    _T
    _WALL
    _LSID
    _TXN_NUMBER
    _STMT_ID
    _FROM_MIGRATE

cdef class EntryRun:
    cdef readonly int op
    cdef readonly bytes ui
    cdef readonly long long term
    cdef readonly list entries
    cdef readonly list objects
    cdef readonly list named
    cdef readonly list timestamps
    cdef readonly list walls
    cdef readonly list lsids
    cdef readonly list txn_numbers
    cdef readonly list stmt_ids
    cdef list _offsets
    cdef int _op
    cdef bytes _ui
    cdef bytes _o
    cdef bytes _o2
    cdef bytes _lsid
    cdef long long _txn_number
    cdef long long _stmt_id
    cdef unsigned long long _timestamp
    cdef long long _term
    cdef long long _wall_ms

    cdef bint take(self, bytes entry) except -1
    cdef bint _find_fields(self, bytes entry) except -1
    cdef bint _read(self, bytes entry) except -1
    cdef bint _read_session(self, bytes entry, Py_ssize_t at) except -1
    cdef bint _follows(self, Py_ssize_t position) except -1

cdef int _number_of(bytes raw, Py_ssize_t at, Py_ssize_t size) noexcept
cdef bytes _value_at(bytes entry, int code, Py_ssize_t at)
