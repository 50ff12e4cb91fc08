from docstore.collection.collection cimport Collection, Index
from docstore.collection.index.entries cimport Entries
from docstore.collection.oplog.journal cimport Journal
from docstore.collection.read.overlay cimport PendingReader
from docstore.storage.engine cimport Batch

cdef class WriteUnitOfWork(PendingReader):
    cdef public bint tolerant
    cdef public bint from_migrate
    cdef public object _store
    cdef public object _engine
    cdef public dict _records
    cdef public dict _indexes
    cdef public Journal _journal
    cdef public Entries _entries
    cdef public dict _deltas
    cdef public list _changes
    cdef public bint _trims
    cdef public object _keys
    cdef public object _sequence
    cdef list _on_abort
    cdef object _oldest
    cdef object _trimmed
    cdef public bint _open
