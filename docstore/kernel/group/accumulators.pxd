from docstore.bson.allowance cimport spend
from docstore.kernel.group.double_sum cimport DoubleSum
from docstore.kernel.group.sources cimport ValueRef
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.keys.encoding cimport append_key
from docstore.bson.number cimport double_bytes, integer_bytes
from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, DECIMAL, DOUBLE, INT32, INT64, NULL, OBJECT, UNDEFINED, document_stop, double_at, int32_at, int64_at, name_end,
    part, value_end,
)

cdef class State:
    cdef readonly list extras
    cdef State following
    cdef int add(self, ValueRef value) except -1
    cdef bint merge(self, ValueRef partial) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)

cdef class SumState(State):
    cdef bint _counted
    cdef long long _count
    cdef int _kind
    cdef long long _integer_sum
    cdef bint _binary
    cdef DoubleSum _sum
    cdef int add(self, ValueRef value) except -1
    cdef bint merge(self, ValueRef partial) except -1
    cdef int _add_integer(self, long long number, ValueRef value) except -1
    cdef int _add_double(self, double number, ValueRef value) except -1
    cdef int _keep(self, ValueRef value) except -1
    cdef int _begin_binary(self) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)

cdef class ExtremeState(State):
    cdef int _sign
    cdef bint _last
    cdef int _code
    cdef bytes _raw
    cdef int add(self, ValueRef value) except -1
    cdef bint merge(self, ValueRef partial) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)

cdef class EndState(State):
    cdef bint _last
    cdef tuple _value
    cdef Py_ssize_t _counted
    cdef int add(self, ValueRef value) except -1
    cdef bint merge(self, ValueRef partial) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)

cdef KeyWriter _key_writer
cdef KeyWriter _array_writer

cdef class MembersState(State):
    cdef bytearray _members
    cdef dict _keys
    cdef Py_ssize_t _size
    cdef int add(self, ValueRef value) except -1
    cdef int _take(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint merge(self, ValueRef partial) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)
