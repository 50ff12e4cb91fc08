from docstore.collection.collection cimport Collection
from docstore.collection.read.prepared cimport BoundScan
from docstore.node.write.modification cimport Modification

cdef class KeyUpdates:
    cdef public list matched
    cdef public list modified
    cdef public list runs
    cdef public object size
    cdef public dict latest

    cpdef object take(self, object number, object record_id, bytes before, bytes after, Modification update)

cdef class _ChangedPaths:
    cdef Collection _collection
    cdef dict _decisions
    cdef set _places

    cpdef object add(self, object places)
    cpdef bint concerns(self, BoundScan bound, bytes filter_)
