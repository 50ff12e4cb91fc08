from docstore.node.node cimport DataNode

cdef class Modification:
    cdef public DataNode node
    cdef public object tree
    cdef public object update
    cdef public object matched
    cdef public bytes filter
    cdef public object positions
    cdef public object _paths
    cdef public bint _at_once

    cpdef bytes apply(self, bytes before)
    cpdef list apply_each(self, list before)
    cpdef bytes _changed_at_once(self, bytes before)
    cpdef object counts(self, bytes before, bytes after)
