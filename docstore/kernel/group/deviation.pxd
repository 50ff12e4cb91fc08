from libc.math cimport sqrt

from docstore.bson.number cimport double_bytes, integer_bytes
from docstore.bson.walk cimport (
    ARRAY, DECIMAL, DOUBLE, INT32, INT64, NULL, document_stop, double_at, int32_at, int64_at, name_end,
)
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport ValueRef

cdef double _double_of(bytes decimal) except? -1

cdef class DeviationState(State):
    cdef bint _sample
    cdef long long _count
    cdef double _mean
    cdef double _squares
    cdef int add(self, ValueRef value) except -1
    cdef bint merge(self, ValueRef partial) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)
