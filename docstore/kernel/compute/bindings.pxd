from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, NULL, document_stop, name_end, value_end
from docstore.kernel.compute.expressions cimport Calculation, UNKNOWN, truth_of
from docstore.kernel.group.sources cimport Place, Source, Variable
from docstore.kernel.keys.writer cimport KeyWriter

cdef enum:
    _PER_MEMBER = 64

cdef class Bindings(Calculation):
    cdef list _variables
    cdef KeyWriter _out
    cdef int _put(self, Place found) except -1

cdef class Bound(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Mapped(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Filtered(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class Reduced(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef Py_ssize_t _bind(Place place, bytes raw, Py_ssize_t at, Py_ssize_t stop) except -1
cdef int _copy(Place place, Place found) except -1
