from docstore.storage.disk_space cimport DiskSpace
from docstore.storage.engine cimport Batch
from docstore.storage.rocks_snapshot cimport Versions

cdef class RocksEngine:
    cdef object __weakref__
    cdef public str path
    cdef public object lock
    cdef public object _db
    cdef object _cache
    cdef tuple _families
    cdef tuple _handles
    cdef dict _kept
    cdef tuple _gets
    cdef object _write_options
    cdef Versions _versions
    cdef DiskSpace _room
    cdef object _files
    cdef object _ingestion
    cdef bint _out_of_space
    cdef dict _ratios
    cdef object _writes
    cdef object _removed
    cdef object _marks
    cdef bint _open

    cpdef object write(self, Batch batch)
    cpdef bytes get(self, object family, bytes key)
