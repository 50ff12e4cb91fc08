from docstore.bson.walk cimport (
    ARRAY, BINARY, BOOL, DATE, DOUBLE, INT32, INT64, OBJECT, OBJECT_ID, REGEX, STRING, TIMESTAMP, document_stop,
    double_at, find, name_end, part, value_end,
)
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.match.path_predicates cimport is_name, stands_at

cdef enum:
    _OPERATORS = 0x15
    _LISTED = 0x16
    _BRANCH = 0x17
    _EVERY = 0x18
    _ELEMENT = 0x19
    _PATTERN = 0x1A
    _BEGINNING = 0x1B
    _CONJUNCT = 0x1C
    _SEARCH = 0x1D

cdef KeyWriter _out
cdef bint _searches
cdef int _TOP
cdef int _IN_BRANCH
cdef int _OF_OPERATORS
cdef Py_ssize_t MAX_FILTER_BYTES
cdef Py_ssize_t MAX_FORM_BYTES
cdef int MAX_LIST_MEMBERS
cdef Py_ssize_t MAX_FORM_VALUES

cdef bint _fields(bytes raw, Py_ssize_t start, Py_ssize_t limit, int context, list values) except -1
cdef bint _filters(bytes raw, Py_ssize_t start, Py_ssize_t limit, int mark, int context, list values) except -1
cdef int _types_of_list(bytes raw, Py_ssize_t at, Py_ssize_t named, Py_ssize_t end) except -1
cdef int _mark_of_filters(bytes raw, Py_ssize_t at, Py_ssize_t named, Py_ssize_t end) except -1
cdef bint _is_comparison(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bint _is_value(int code, bytes raw, Py_ssize_t at) noexcept
cdef _members(bytes raw, Py_ssize_t start, Py_ssize_t limit, list values)
cdef Py_ssize_t _size_of_values(bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
cdef int _special(
    bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t at, Py_ssize_t named, Py_ssize_t end, bint operators,
    list values,
) except -2
cdef bint _is_search(bytes raw, int code, Py_ssize_t at, Py_ssize_t named) noexcept
cdef bint _begins_search(bytes raw, Py_ssize_t at, Py_ssize_t named, Py_ssize_t end) except -1
cdef bint _search(bytes raw, Py_ssize_t at, Py_ssize_t named, Py_ssize_t end, list values) except -1
cdef int _kind_of_pattern(
    bytes raw, Py_ssize_t start, Py_ssize_t limit, int code, Py_ssize_t at, Py_ssize_t named, bint operators,
) except -1
cdef bint _is_plain(int byte) noexcept
