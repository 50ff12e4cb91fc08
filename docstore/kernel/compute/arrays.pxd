from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport (
    ARRAY, INT32, NULL, OBJECT, STRING, UNDEFINED, document_stop, int32_at, name_end, part, value_end,
)
from docstore.kernel.compute.expressions cimport Calculation, member_of, put_boolean
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport ValueRef, Source, put_result
from docstore.kernel.keys.writer cimport KeyWriter

cdef class BufferedCalculation(Calculation):
    cdef KeyWriter _out
    cdef int _store_result(self, int code, ValueRef result) except -1

cdef class Members(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Joined(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Slice(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Reversed(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class IsArray(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Accumulated(Calculation):
    cdef object _start
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class MergedDocuments(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Pairs(BufferedCalculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef Py_ssize_t _put_members(
    KeyWriter out, ValueRef array, long long begin, long long count, Py_ssize_t position
) except -1
cpdef list member_spans(ValueRef array)
