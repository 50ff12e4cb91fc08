from docstore.bson.walk cimport ARRAY, BOOL, INT32, INT64, OBJECT_ID, STRING, part
from docstore.kernel.compute.arrays cimport Made
from docstore.kernel.compute.expressions cimport Calculation, integer_of, put_integer
from docstore.kernel.group.sources cimport Place, Source
from docstore.kernel.keys.writer cimport KeyWriter

cdef bint _is_short(Place place) noexcept
cdef bytes _text(Place place)
cdef int _put_text(Place found, KeyWriter out, bytes text) except -1
cdef bint _continues(bytes raw, Py_ssize_t at) noexcept
cdef Py_ssize_t _characters(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef Py_ssize_t _behind(bytes raw, Py_ssize_t at, Py_ssize_t end, long long count) noexcept
cdef int _upper(int byte) noexcept

cdef class Case(Made):
    cdef bint _upper
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Counted(Made):
    cdef bint _of_characters

cdef class Length(Counted):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Substring(Counted):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Parts(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Trimmed(Made):
    cdef bint _left
    cdef bint _right
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Index(Counted):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Replaced(Made):
    cdef Py_ssize_t _count
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class CaseOrder(Calculation):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Text(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1
