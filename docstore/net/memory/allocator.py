"""How much freed memory the C library keeps: without this a process never shrinks after large messages.

A batch of 16 MiB is put together from pieces and sent, over and over while a collection is read. Where its blocks went
back to the system each time, taking and clearing their pages anew was half of what such a read costs; so blocks of
less than 32 MiB lie in the heap, of whose end up to 64 MiB stay free. What lies free there is given back by
`give_back` alone, at about 0.3 ms for each MB, when the process has nothing to do with it: with 1,000,000 documents of
300 bytes loaded and read twice a node comes to 184 MB, and to 182 MB where every block of more than 512 KiB goes back
at once.
"""

from __future__ import annotations

import ctypes
import os
import resource

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MIB = 1024 * 1024
_PAGE_BYTES = resource.getpagesize()
_SETTINGS = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, 32 * _MIB), (_TRIM_THRESHOLD, 64 * _MIB))


def bound_free_memory() -> None:
    """Share few arenas between threads, and bound what is kept of what was freed. Nothing happens without glibc."""
    settle = getattr(ctypes.CDLL(None), "mallopt", None)
    if settle is not None:
        for option, value in _SETTINGS:
            settle(option, value)


def give_back() -> None:
    """Give the system all pages in which nothing is in use. Nothing happens without glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """The memory that the process has; where the system does not tell, the most that it ever had."""
    try:
        descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        return int(os.read(descriptor, 128).split()[1]) * _PAGE_BYTES
    finally:
        os.close(descriptor)
