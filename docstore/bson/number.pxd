from docstore.bson.walk cimport DECIMAL, DOUBLE, INT32, double_at, int32_at, int64_at

cdef bytes integer_bytes(long long number, int size)
cdef bytes double_bytes(double number)
cdef long long integer_at(int code, bytes raw, Py_ssize_t at) noexcept
cdef int _compare_doubles(double a, double b) noexcept
cdef int _compare_integer_double(long long a, double b) noexcept
cdef int compare_numbers(int a_code, bytes a, Py_ssize_t a_at, int b_code, bytes b, Py_ssize_t b_at) except? -9
