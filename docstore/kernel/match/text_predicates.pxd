from docstore.bson.order cimport CLASS_STRING, class_of
from docstore.bson.walk cimport REGEX, part
from docstore.kernel.match.path_predicates cimport stands_at
from docstore.kernel.match.predicate cimport MISSING, PathPredicate

cdef Py_ssize_t _LONG_TEXT

cdef class Regex(PathPredicate):
    cdef object _search
    cdef bytes _same
    cdef bytes _text
    cdef Py_ssize_t _size
    cdef bint _at_start
    cdef bint _at_end
    cdef bint _caseless
    cdef bint _has_others
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _has_text(self, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _stands_at(self, bytes raw, Py_ssize_t at, bytes text) noexcept

cdef bint _has_folded(bytes raw, Py_ssize_t at, Py_ssize_t last, bytes text, Py_ssize_t size) noexcept
cdef bint _stands_folded(bytes raw, Py_ssize_t at, bytes text, Py_ssize_t size) noexcept
cdef bint _is_ascii(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
