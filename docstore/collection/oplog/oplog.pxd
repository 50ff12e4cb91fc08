cdef class Oplog:
    cdef object _engine
    cdef object _clock
    cdef public object max_bytes
    cdef public object term
    cdef public bint writable
    cdef public object commit_limit
    cdef public object written_entries
    cdef public object written_undo
    cdef public object cuts
    cdef public object count
    cdef public object size
    cdef public object first
    cdef public object last
    cdef unsigned long long _time
