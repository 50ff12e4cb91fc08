from docstore.storage.engine cimport Batch

cdef class DiskSpace:
    cdef str _path
    cdef object _measure
    cdef Py_ssize_t _until_look
    cdef Py_ssize_t _bytes_until_look
    cdef Py_ssize_t _removed_bytes
    cdef Py_ssize_t _reserve
    cdef bint _is_full

    cpdef object check(self, Batch batch)
    cpdef bint wants_room(self)

cdef Py_ssize_t _weight(Batch batch) except -1
