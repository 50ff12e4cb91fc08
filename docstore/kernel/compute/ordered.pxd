from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, NULL, OBJECT, document_stop, find, name_end, part, value_end
from docstore.kernel.compute.arrays cimport BufferedCalculation, member_spans
from docstore.kernel.group.sources cimport ValueRef, Source
from docstore.kernel.keys.elements cimport append_directed
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter

cdef class Sorted(BufferedCalculation):
    cdef list _paths
    cdef list _falling
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
    cdef bytes _key(self, bytes raw, Py_ssize_t member, Py_ssize_t end)

cdef class MemberSet(BufferedCalculation):
    cdef bint _shared
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
    cdef dict _members_of(self, ValueRef array)
