from docstore.bson.order cimport compare_bytes
from docstore.bson.walk cimport ARRAY, DATE, OBJECT, OBJECT_ID, document_stop, find, int64_at, name_end, part, value_end
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.series.bucket cimport TAKEN, Bucket, Rules

cdef KeyWriter _WRITER

cdef class Identities:
    cdef unsigned long long _next
    cdef unsigned long long next_number(self)

cdef class Lane:
    cdef readonly bytes key
    cdef readonly tuple meta
    cdef public bint opened
    cdef public Bucket bucket

cdef class Filling:
    cdef readonly list drafts
    cdef public Py_ssize_t gathered
    cdef public Py_ssize_t gathered_bytes
    cdef public Rules rules
    cdef Identities _identities
    cdef object _lane_of
    cdef dict _lanes
    cdef Py_ssize_t _first
    cdef list _times
    cdef list _read
    cpdef Bucket open_bucket(self, long long time, object meta)
    cpdef int add(self, bytes raw, Py_ssize_t position, long long time, Lane lane) except -1
    cdef Lane _lane(self, bytes raw)

cdef unsigned long long _seconds(long long begin) noexcept
cdef bint _is_normal(bytes raw, int code, Py_ssize_t at, Py_ssize_t end, int depth) except -1
cdef bint _has_array(bytes raw, object paths) except -1
