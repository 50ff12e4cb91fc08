from docstore.bson.walk cimport ARRAY, BINARY, NULL, OBJECT, UNDEFINED, document_stop, int32_at, name_end, part, value_end
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.sources cimport ValueRef, Source
from docstore.kernel.keys.elements cimport append_directed
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter

cdef enum:
    _PER_MEMBER = 100
    _KEY_AT = 12

cdef ValueRef _member
cdef KeyWriter _writer

cdef int _begin_pair(KeyWriter out) except -1
cdef bytes _ended_pair(KeyWriter out, ValueRef value)

cdef class RankedSource(Source):
    cdef list _rank
    cdef list _descending
    cdef Source _value
    cdef object _otherwise
    cdef KeyWriter _out
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef class ManyState(State):
    cdef Py_ssize_t _count
    cdef bint _last
    cdef list _values
    cdef bint merge(self, ValueRef partial) except -1

cdef class EndsState(ManyState):
    cdef Py_ssize_t _oldest
    cdef int add(self, ValueRef value) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)

cdef tuple _value_or_null(ValueRef value)
cdef int _non_negative(Py_ssize_t grown) noexcept

cdef class OrderedState(ManyState):
    cdef bint _replaces
    cdef list _keys
    cdef int _keep(self, bytes key, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class ExtremesState(OrderedState):
    cdef int add(self, ValueRef value) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)

cdef class RankedState(OrderedState):
    cdef bint _single
    cdef int add(self, ValueRef value) except -1
    cpdef tuple partial(self)
    cpdef tuple result(self)
