from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, DECIMAL, DOUBLE, INT32, INT64, NULL, OBJECT, UNDEFINED, document_stop, double_at, find, int32_at, int64_at,
    name_end, part, value_end,
)

cdef class Place:
    cdef int code
    cdef bytes raw
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef int put(self, int code, bytes raw) except -1
    cdef tuple value(self)

cdef class Source:
    cdef int locate(self, bytes document, Place member, Place found) except -1

cdef int _put_result(Place found, tuple value) except -1

cdef class ConstantSource(Source):
    cdef int _code
    cdef bytes _raw
    cdef int locate(self, bytes document, Place member, Place found) except -1

cdef class CallSource(Source):
    cdef object _function
    cdef int locate(self, bytes document, Place member, Place found) except -1

cdef class PathSource(Source):
    cdef list _path
    cdef list _names
    cdef bint _inside
    cdef object _otherwise
    cdef int locate(self, bytes document, Place member, Place found) except -1

cdef class DocumentSource(Source):
    cdef list _fields
    cdef int locate(self, bytes document, Place member, Place found) except -1

cdef class State:
    cdef readonly list extras
    cdef int add(self, Place found) except -1

cdef class SumState(State):
    cdef bint _counted
    cdef long long _count
    cdef int _kind
    cdef long long _whole
    cdef double _high
    cdef double _low
    cdef int add(self, Place found) except -1
    cdef int _add_integer(self, long long number, Place found) except -1
    cdef int _add_double(self, double number, Place found) except -1
    cdef int _keep(self, Place found) except -1

cdef class ExtremeState(State):
    cdef int _sign
    cdef int _code
    cdef bytes _raw
    cdef int add(self, Place found) except -1

cdef class EndState(State):
    cdef bint _last
    cdef tuple _value
    cdef int add(self, Place found) except -1

cdef class Grouping:
    cdef readonly Py_ssize_t held
    cdef Source _key
    cdef list _sources
    cdef list _starts
    cdef PathSource _unwind
    cdef dict _groups
    cdef list _keys
    cdef list _known
    cdef Place _found
    cdef Place _member
    cdef int _take_members(self, bytes document) except -1
    cdef int _take(self, bytes document, Place member) except -1
