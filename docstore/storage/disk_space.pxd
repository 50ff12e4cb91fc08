from docstore.storage.engine cimport Batch

cdef class DiskSpace:
    cdef str _path
    cdef object _measure
    cdef Py_ssize_t _until_look
    cdef bint _is_full

    cpdef object check(self, Batch batch)
