cdef class Store:
    cdef object __weakref__
    cdef public object engine
    cdef public object mode
    cdef public object clock
    cdef public object claims
    cdef public object catalog
    cdef public object oplog
    cdef public object sessions
    cdef public object sequence
    cdef public object security_changes
    cdef public dict document_keys
    cdef public object write_lock
    cdef public bint has_listeners
    cdef public tuple _listeners
    cdef public list watchers
    cdef public object undo_history
    cdef object _undo_limit
