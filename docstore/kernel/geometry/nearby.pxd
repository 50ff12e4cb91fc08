from docstore.kernel.geometry.points cimport DistanceFrom
from docstore.kernel.scan.fetch cimport Fetching
from docstore.kernel.scan.index_bounds cimport field_end

cdef class CellDistances:
    cdef readonly double low
    cdef readonly double high
    cdef readonly double area
    cdef bint measure(self, bytes entry, Py_ssize_t at) except -1
    cdef double farthest(self) except -1

cdef class RadiusFilter:
    cdef object _entries
    cdef CellDistances _cells
    cdef Py_ssize_t _skipped
    cdef double _radius
    cdef Py_ssize_t _remaining

cdef class Nearby:
    cdef readonly list waiting
    cdef set _visited_entries
    cdef Py_ssize_t _number
    cdef CellDistances _cells
    cdef double _least
    cdef double _greatest
    cdef Py_ssize_t _skipped
    cdef list _masks
    cdef dict _numbers
    cdef _measure(self, bytes entry)
