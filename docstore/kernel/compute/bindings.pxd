from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, NULL, document_stop
from docstore.kernel.compute.arrays cimport Made
from docstore.kernel.compute.expressions cimport UNKNOWN, truth_of
from docstore.kernel.group.sources cimport Place, Source, Variable

cdef enum:
    _PER_MEMBER = 64

cdef class Bindings(Made):
    cdef list _variables

cdef class Bound(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class OfElements(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1
    cdef int _take(self, Place element, Place made, Py_ssize_t position) except -1

cdef class Mapped(OfElements):
    cdef int _take(self, Place element, Place made, Py_ssize_t position) except -1

cdef class Filtered(OfElements):
    cdef int _take(self, Place element, Place made, Py_ssize_t position) except -1

cdef class Reduced(Bindings):
    cdef bint _calculated(self, bytes document, Place found) except -1
