from docstore.bson.walk cimport part
from docstore.kernel.keys.gathered cimport GatheredEntries
from docstore.kernel.keys.pattern cimport KeyPattern

cdef Py_ssize_t _RECORD_ID_BYTES
cdef Py_ssize_t _LARGE

cdef class EntrySource:
    cdef bytes prefix
    cdef readonly object array_bits
    cdef KeyPattern _pattern
    cdef object _gather
    cpdef gather(self, bytes raw, bytes rid, GatheredEntries into)
