from docstore.collection.oplog.oplog cimport Oplog

cdef class MemberTimes:
    cdef Oplog _oplog
    cdef object _initiated
    cdef object _proofs
    cdef object _shown
    cdef tuple _shown_of
