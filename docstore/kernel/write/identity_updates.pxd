from docstore.bson.walk cimport OBJECT, find, part, value_end
from docstore.kernel.compute.field_updates cimport FieldChanges
from docstore.kernel.compute.operators cimport field_changes
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.match.predicate cimport Predicate
from docstore.kernel.write.statements cimport identity_type

cdef bytes _EMPTY_TIMESTAMP
cdef Py_ssize_t _RECORD_ID_BYTES

cdef class Written:
    cdef readonly bint makes
    cdef readonly frozenset names
    cdef readonly object paths
    cdef readonly bint same_identity
    cdef readonly list numbers
    cdef readonly list record_ids
    cdef readonly list before
    cdef readonly list after

cdef class Where:
    cdef object rid_of
    cdef object document_of
    cdef bytes identities
    cdef bytes records
    cdef bytes newest
    cdef Predicate owned
    cdef Py_ssize_t large

cdef class FallbackHooks:
    cdef object judge
    cdef object admits
    cdef object all_paths
    cdef object replaced

cdef class IdentityUpdates:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly list matched
    cdef readonly list modified
    cdef readonly list upserted
    cdef readonly list runs
    cdef Where _where
    cdef FallbackHooks _fallbacks
    cdef Py_ssize_t _remaining_bytes
    cdef KeyWriter _out
    cdef dict _documents
    cdef bytes _specification
    cdef FieldChanges _changes
    cdef bint _in_order

    cdef bint _statement(self, Py_ssize_t number, object statement) except -1
    cdef bint _without(self, Py_ssize_t number, object statement, bytes key) except -1
    cdef bint _change(self, Py_ssize_t number, bytes specification, bytes key, bytes rid, bytes before) except -1
    cdef FieldChanges _operators(self, bytes specification)
    cdef bint _take(self, Py_ssize_t size) noexcept
    cdef bint _done(self, int matched, int modified) except -1
    cdef Written _run_of(self, bint makes, frozenset[bytes] names, object paths, bint same, bint first)
    cdef int _write(self, Written run, Py_ssize_t number, bytes rid, bytes before, bytes after) except -1

cdef bint _is_plain(object statement) except -1
cdef bint has_operators(bytes specification) noexcept
cdef bint _is_whole(bytes replacement) except -1
cdef bint _begins_with_identity(bytes raw) noexcept
cdef bytes _replaced(bytes replacement, bytes before)
cdef bytes _placed(bytes document, bytes source, Py_ssize_t at, Py_ssize_t end)
cdef tuple _identity(bytes raw)
