from docstore.kernel.scan.fetch cimport Examined
from docstore.kernel.scan.watched cimport Sought
from docstore.bson.order cimport (
    CLASS_ARRAY, CLASS_BINARY, CLASS_BOOL, CLASS_CODE, CLASS_CODE_WITH_SCOPE, CLASS_DATE, CLASS_DB_POINTER,
    CLASS_MAX_KEY, CLASS_MIN_KEY, CLASS_NULL, CLASS_OBJECT, CLASS_OBJECT_ID, CLASS_REGEX, CLASS_STRING,
    CLASS_TIMESTAMP, CLASS_UNDEFINED,
)

cpdef enum:
    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _POSITIVE = 0x38
    _TRUE = 0x69

cdef Py_ssize_t _PASSED_BY_READING
cdef Py_ssize_t _SOUGHT_BLINDLY
cdef Py_ssize_t _TRIED_AGAIN

cdef class FieldBounds:
    cdef bytes prefix
    cdef bytes end
    cdef object ranges
    cdef object descending

cdef class Bounded:
    cdef object _opened
    cdef object _source
    cdef bytes _end
    cdef bytes _start
    cdef Py_ssize_t _skipped
    cdef list _lows
    cdef list _highs
    cdef list _masks
    cdef bint _reverse
    cdef bint _pairs
    cdef Py_ssize_t _once
    cdef bytes _target
    cdef bint _done
    cdef Examined _examined
    cdef Sought _sought
    cdef Py_ssize_t _most_passed
    cdef Py_ssize_t _blindly
    cdef _open_at(self, bytes key)
    cdef bint _is_within(self, bytes key) except -1
    cdef _pass_over_same(self, bytes key)
    cdef _seek(self, bytes before, Py_ssize_t field, Py_ssize_t range_index)
    cdef bytes _first_of(self, Py_ssize_t field)
    cdef bytes _first_from(self, Py_ssize_t field, Py_ssize_t range_index)
    cdef bytes _last_of(self, Py_ssize_t field)
    cdef bytes _last_from(self, Py_ssize_t field, Py_ssize_t range_index)

cpdef Py_ssize_t field_end(bytes key, Py_ssize_t at, int mask) noexcept
cdef Py_ssize_t _rare_end(bytes key, Py_ssize_t at, int mask, int kind) noexcept
cdef Py_ssize_t _members_end(bytes key, Py_ssize_t at, int mask, bint named) noexcept
cdef Py_ssize_t _text_end(bytes key, Py_ssize_t at, int mask) noexcept
cdef Py_ssize_t _number_end(bytes key, Py_ssize_t at, int mask) noexcept
