cdef long long floored(long long number, long long divisor) noexcept
cpdef tuple day_and_rest(long long milliseconds)
cpdef tuple civil(long long day)
cpdef object day_of(long long year, long long month, long long of_month)
cpdef object weekday(long long day)
cpdef object day_of_year(long long day)
cpdef tuple iso_week(long long day)
