from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport (
    ARRAY, INT32, NULL, OBJECT, STRING, UNDEFINED, document_stop, int32_at, name_end, part, value_end,
)
from docstore.kernel.compute.expressions cimport Calculation, member_of, put_boolean
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport Place, Source, put_result
from docstore.kernel.keys.writer cimport KeyWriter

cdef class Made(Calculation):
    cdef KeyWriter _out
    cdef int _put(self, int code, Place found) except -1

cdef class Members(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Joined(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Slice(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Reversed(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class IsArray(Calculation):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Accumulated(Calculation):
    cdef object _start
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class MergedDocuments(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Pairs(Made):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef Py_ssize_t _put_members(
    KeyWriter out, Place array, long long begin, long long count, Py_ssize_t position
) except -1
cpdef list places_of(Place array)
