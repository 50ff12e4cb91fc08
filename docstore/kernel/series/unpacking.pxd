from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport (
    DATE, INT32, OBJECT, document_stop, find, int32_at, int64_at, name_end, name_text, part, same_bytes, value_end,
)
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.match.predicate cimport MISSING, PathPredicate, Predicate

cdef class Column:
    cdef readonly bytes name
    cdef Py_ssize_t offset
    cdef Py_ssize_t value
    cdef Py_ssize_t end
    cdef bint ended
    cdef bint is_output
    cdef bytes _raw
    cdef Py_ssize_t _stop
    cdef int advance(self) except -1
    cdef bint is_at(self, Py_ssize_t offset, Py_ssize_t value) noexcept

cdef class Unpacking:
    cdef bytes _time_field
    cdef bytes _meta_field
    cdef object _output_fields
    cdef list _tests
    cdef list _names
    cdef Predicate _predicate
    cdef list _columns
    cdef list _tested
    cdef Column _begin(self, bytes bucket, bint counting)
    cdef bint _passes(self, bytes bucket, Column times, object tested) except -1
    cdef bytes _shared(self, bytes bucket)

cdef Column _column(bytes bucket, Py_ssize_t at, Py_ssize_t named, bint is_output)
cdef int _check_column(bytes bucket, Py_ssize_t at, Py_ssize_t named) except -1
