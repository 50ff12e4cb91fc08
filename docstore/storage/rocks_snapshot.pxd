from docstore.storage.engine cimport Batch

cdef class _Version:
    cdef public tuple snapshots
    cdef public object number
    cdef public object handles
    cdef public bint written
    cdef public tuple touched
    cdef public object count
    cdef public tuple pinned
    cdef public _Version newer
    cdef public _Version older

cdef class Versions:
    cdef object _families
    cdef public object newest
    cdef _Version _newest
    cdef object _made
    cdef public object writes

    cpdef _Version hold(self)
    cpdef object before_write(self, Batch batch)
    cpdef object walk(self, object family, str yields, bytes start, bytes end, bint reverse)
    cpdef bint may_differ(self, _Version version, object family, bytes key)

cdef class _Differences:
    cdef public list keys
    cdef public object writes
    cdef dict _seen

cdef class RocksSnapshot:
    cdef Versions _versions
    cdef public _Version version
    cdef dict _differences

    cpdef bytes get(self, object family, bytes key)
    cdef _Version _open_version(self)
