cdef class Index:
    cdef object __weakref__
    cdef tuple _arrays
    cdef object _covered
    cdef object _keys_of
    cdef object _reads
    cdef public object collation
    cdef public set collisions
    cdef public object fields
    cdef public object fields_read
    cdef public object geometry
    cdef public object ident
    cdef public bint is_id
    cdef public bytes key_id
    cdef public object key_pattern
    cdef public object partial
    cdef public object array_bits
    cdef public bytes prefix
    cdef public bint ready
    cdef public object spec
    cdef public object text
    cdef public bint unique
    cdef public object uses
    cdef public object wildcard

cdef class Collection:
    cdef dict _changing
    cdef public dict building
    cdef public object count
    cdef public bytes counters_key
    cdef public bytes end
    cdef public bint guards
    cdef public bint has_unique
    cdef public dict heads
    cdef public Index id_index
    cdef public bytes id_prefix
    cdef public object ident
    cdef public object index_filters
    cdef public dict indexes
    cdef public bytes newest_id
    cdef public object next_record_id
    cdef public str ns
    cdef public object oldest
    cdef public object options
    cdef public object plans
    cdef public bytes prefix
    cdef public bint replicates
    cdef public bytes rows_prefix
    cdef public tuple secondary
    cdef public object size
    cdef public object uuid
