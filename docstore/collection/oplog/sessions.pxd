cdef class SessionState:
    cdef public object last
    cdef public bytes row
    cdef public dict statements
    cdef public object txn_number

cdef class SessionTable:
    cdef object _engine
    cdef object _read_entry
    cdef object _states
    cdef tuple _latest
    cdef public dict prepared
    cdef public object before_write
    cdef public object last_delayed
    cdef bytes _reap_from

    cpdef SessionState state(self, bytes lsid)
    cpdef SessionState check(self, bytes lsid, object txn_number)
