from docstore.bson.walk cimport DATE, find, int64_at, part, value_end

cdef tuple _measured(bytes raw, bytes time_field, bytes meta_field)
