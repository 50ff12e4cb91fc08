from docstore.collection.store cimport Store
from docstore.commands.context cimport Context

cdef class DataNode:
    cdef public object settings
    cdef public object engine
    cdef public Store store
    cdef public object replication
    cdef public object parameters
    cdef public object clock
    cdef public object wall_clock
    cdef public object started
    cdef public object counters
    cdef public object expiry
    cdef public object shard_filter
    cdef public object workers
    cdef public object evaluators
    cdef public object shutdown
    cdef public object shutdown_seconds
    cdef public object scheduler
    cdef public object rng
    cdef public object network
    cdef public object links
    cdef public set outputs
    cdef public object pool
    cdef public object transaction
    cdef public object parts
    cdef public dict status
    cdef public object users
    cdef public object profiler
    cdef public object check_retryable
    cdef object _last_timestamp

cpdef DataNode node_of(Context context)
