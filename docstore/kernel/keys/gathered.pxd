from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy
from docstore.kernel.keys.writer cimport KeyWriter

cdef struct Entry:
    unsigned long long order
    Py_ssize_t at
    int size
    int value

cdef struct Source:
    Entry* next
    Entry* end

ctypedef Entry* EntryPointer
ctypedef Source* SourcePointer

cdef Py_ssize_t MAX_INSERTION_SORT_ENTRIES

cdef class GatheredEntries:
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _skip
    cdef Py_ssize_t _sorted
    cdef char* _bytes
    cdef Py_ssize_t _room
    cdef Py_ssize_t _used
    cdef Entry* _entries
    cdef Py_ssize_t _entry_room
    cdef Entry* _spare
    cdef Source* _sources
    cdef Py_ssize_t _source_count
    cdef Entry* _last
    cdef list _starts
    cdef list _values
    cdef dict _value_indexes
    cdef bytes _newest_value
    cdef int _newest_index
    cdef list _plain
    cdef list _runs
    cdef object _merged
    cdef int add_written(self, KeyWriter out) except -1
    cdef int give_value(self, Py_ssize_t start, bytes value) except -1
    cdef int _append(self, char* key, Py_ssize_t size) except -1
    cdef int _give_newest(self, Py_ssize_t start, bytes value) except -1
    cdef int _begin_merge(self) except -1
    cdef Py_ssize_t _put_next(self, object target, Py_ssize_t most) except -1
    cdef int _sink(self, Py_ssize_t number) except -1

cdef void* _room_for(void* memory, Py_ssize_t size) except NULL
cdef unsigned long long _order_of(char* keys, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bint _before(Entry* entry, Entry* other, char* keys, Py_ssize_t skip) noexcept
cdef int _sort(Entry* entries, Py_ssize_t count, Entry* spare, char* keys, Py_ssize_t skip) except -1
