from docstore.bson.walk cimport ARRAY, OBJECT, STRING, document_stop, find, name_end, name_text, part, value_end
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.match.predicate cimport Predicate

cdef class DocumentPredicate(Predicate):
    cdef Predicate _part
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1

cdef class Among(Predicate):
    cdef frozenset _codes
    cdef Predicate _part
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class OneOf(Predicate):
    cdef list _parts
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Holds(Predicate):
    cdef Predicate _part
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Required(Predicate):
    cdef list _names
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Properties(Predicate):
    cdef list _paths
    cdef list _parts
    cdef list _patterns
    cdef Predicate _additional
    cdef set _names
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _test_path(
        self, list[bytes] path, Predicate inner, bytes raw, Py_ssize_t start, Py_ssize_t limit
    ) except -1
    cdef bint _test_others(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1

cdef class Items(Predicate):
    cdef list _first
    cdef Predicate _additional
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Length(Predicate):
    cdef int _code
    cdef long long _bound
    cdef bint _at_most
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef Py_ssize_t _characters(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef Py_ssize_t _fields(bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1

cdef class Equalities(Predicate):
    cdef object _key_of
    cdef KeyWriter _out
    cdef bytes _key(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end)

cdef class Listed(Equalities):
    cdef set _keys
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Different(Equalities):
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
