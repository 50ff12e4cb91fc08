from docstore.bson.walk cimport ARRAY, BOOL, INT32, INT64, OBJECT_ID, STRING, part
from docstore.kernel.compute.arrays cimport BufferedCalculation
from docstore.kernel.compute.expressions cimport Calculation, integer_of, put_integer
from docstore.kernel.group.sources cimport ValueRef, Source
from docstore.kernel.keys.writer cimport KeyWriter

cdef bint _is_short(ValueRef value) noexcept
cdef bytes _text(ValueRef value)
cdef int _put_text(ValueRef result, KeyWriter out, bytes text) except -1
cdef bint _continues(bytes raw, Py_ssize_t at) noexcept
cdef Py_ssize_t _characters(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef Py_ssize_t _skip_characters(bytes raw, Py_ssize_t at, Py_ssize_t end, long long count) noexcept
cdef int _upper(int byte) noexcept

cdef class Case(BufferedCalculation):
    cdef bint _upper
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Counted(BufferedCalculation):
    cdef bint _of_characters

cdef class Length(Counted):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Substring(Counted):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Parts(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Trimmed(BufferedCalculation):
    cdef bint _trims_left
    cdef bint _trims_right
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Index(Counted):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Replaced(BufferedCalculation):
    cdef Py_ssize_t _count
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class CaseOrder(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Text(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
