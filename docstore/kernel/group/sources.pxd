from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, NULL, OBJECT, document_stop, find, name_end, part, value_end

cdef class ValueRef:
    cdef int code
    cdef bytes raw
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef int put(self, int code, bytes raw) except -1
    cdef int take(self, ValueRef other) except -1
    cdef Py_ssize_t take_member(self, bytes raw, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef tuple value(self)

cdef class Source:
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef int put_result(ValueRef result, tuple value) except -1

cdef class ConstantSource(Source):
    cdef int _code
    cdef bytes _raw
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef class HeldSource(Source):
    cdef public tuple current_value
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef class CallSource(Source):
    cdef object _function
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef class PathSource(Source):
    cdef list _path
    cdef list _names
    cdef bint _inside
    cdef bint _through
    cdef KeyWriter _out
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1
    cdef int _follow(self, ValueRef result) except -1
    cdef int _gather(self, ValueRef result, Py_ssize_t depth) except -1
    cdef int _put_members(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t depth) except -1
    cdef int _put_below(
        self, bytes raw, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth, Py_ssize_t position
    ) except -1

cdef class Variable:
    cdef ValueRef reference

cdef class VariableSource(PathSource):
    cdef Variable _variable
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef class FilledSource(Source):
    cdef Source _source
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1

cdef class DocumentSource(Source):
    cdef list _names
    cdef list _sources
    cdef KeyWriter _out
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1
