"""Confinement of a worker process before it runs users' code, for the case that code escapes from its isolate.

From then on the process

- leaves no core file;
- reads only the interpreter's own files, and writes only below its spill directory;
- opens no socket, starts no process and inspects none;
- cannot gain rights, nor lift these limits, which also bind threads started later.

System calls that are not listed here are refused. The protection depends on the kernel: Landlock (files) is in Linux
since 5.13, filters of system calls are since 3.17. On other systems nothing is confined.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from pathlib import Path
from typing import NamedTuple

import docstore
from docstore.log import component

LOG = component("CONTROL")
_SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVS = 4, 22, 38  # of prctl
_GET_SECCOMP = 21


class EnforcedLimits(NamedTuple):
    """The limits that the kernel enforces."""

    files: bool
    calls: bool


def confine(writable: Path) -> EnforcedLimits:
    """Confine this process. Call it before it has other threads."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return EnforcedLimits(files=False, calls=False)
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.prctl(_SET_DUMPABLE, 0, 0, 0, 0) or kernel.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return EnforcedLimits(files=False, calls=False)
    return EnforcedLimits(files=_bind_files(kernel, writable), calls=_bind_calls(kernel))


def offered() -> EnforcedLimits:
    """Return the limits that this system could enforce, as far as it can be asked without enforcing them."""
    if sys.platform != "linux":
        return EnforcedLimits(files=False, calls=False)
    kernel = ctypes.CDLL(None, use_errno=True)
    filters = platform.machine() in _CALLS and kernel.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0
    return EnforcedLimits(files=_version(kernel) >= 1, calls=filters)


def warn_where_scripts_are_free() -> None:
    """Warn the operator at the start of what a script that escapes from its isolate could do here."""
    protection = offered()
    if not protection.files:
        LOG.startup_warning("Users' scripts are not kept from files by this system, which has no Landlock (Linux 5.13)")
    if not protection.calls:
        LOG.startup_warning(
            "Users' scripts are not kept from sockets and other processes by this system: filters of system calls are"
            " set up on Linux 3.17 and later, on x86-64 and ARM64"
        )


# Files, by Landlock: https://docs.kernel.org/userspace-api/landlock.html

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15}
"""The number of file access rights by version of Landlock; 16 in later ones."""
_NETWORK_SINCE, _CONNECT_AND_BIND = 4, 3
_RULESET = struct.Struct("=QQ")
_RULE = struct.Struct("=Qi")
_OF_THE_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/proc/self/status")


def _version(kernel: ctypes.CDLL) -> int:
    """Return the version of Landlock; below 1 if it is not available."""
    return int(kernel.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION))


def _bind_files(kernel: ctypes.CDLL, writable: Path) -> bool:
    version = _version(kernel)
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    network = _CONNECT_AND_BIND if version >= _NETWORK_SINCE else 0
    size = _RULESET.size if network else 8
    ruleset = kernel.syscall(_CREATE_RULESET, _RULESET.pack(rights, network), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for path in _readable():
            _allow(kernel, ruleset, path, _READ_FILE | _READ_DIRECTORY)
        _allow(kernel, ruleset, writable, rights)
        return bool(kernel.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _readable() -> set[Path]:
    """Return the directories of modules and libraries. Excludes the server's working directory and the parent of the
    package, which may hold data, unless that parent holds packages alone.
    """
    own = Path(docstore.__file__).parent
    modules = {Path(path) for path in sys.path[1:] if path}
    if not own.parent.name.endswith("-packages"):
        modules.discard(own.parent)
    return {*modules, own, *map(Path, (sys.prefix, sys.base_prefix, *_OF_THE_SYSTEM))}


def _allow(kernel: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not path.is_dir():
            rights &= _READ_FILE
        kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(rights, descriptor), 0)
    finally:
        os.close(descriptor)


# System calls, by a filter: https://docs.kernel.org/userspace-api/seccomp_filter.html


class _Calls(NamedTuple):
    """The system call numbers of an architecture. `allowed`: with any arguments; the others only with some values of
    one.
    """

    audit: int
    clone: int
    ioctl: int
    prctl: int
    prlimit: int
    allowed: tuple[int, ...]


_ALLOWED = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "pread64": (17, 67), "pwrite64": (18, 68),
    "readv": (19, 65), "writev": (20, 66), "sched_yield": (24, 124), "mremap": (25, 216), "msync": (26, 227),
    "mincore": (27, 232), "madvise": (28, 233), "dup": (32, 23), "nanosleep": (35, 101), "getitimer": (36, 102),
    "setitimer": (38, 103), "getpid": (39, 172), "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211),
    "recvmsg": (47, 212), "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205),
    "setsockopt": (54, 208), "getsockopt": (55, 209), "exit": (60, 93), "uname": (63, 160), "fcntl": (72, 25),
    "flock": (73, 32), "fsync": (74, 82), "fdatasync": (75, 83), "ftruncate": (77, 46), "getcwd": (79, 17),
    "umask": (95, 166), "gettimeofday": (96, 169), "getrlimit": (97, 163), "getrusage": (98, 165),
    "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175),
    "getegid": (108, 177), "getppid": (110, 173), "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "getdents64": (217, 61), "set_tid_address": (218, 96),
    "restart_syscall": (219, 128), "fadvise64": (221, 223), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "exit_group": (231, 94), "epoll_ctl": (233, 21), "epoll_pwait": (281, 22),
    "epoll_create1": (291, 20), "eventfd2": (290, 19), "dup3": (292, 24), "pipe2": (293, 59), "openat": (257, 56),
    "mkdirat": (258, 34), "newfstatat": (262, 79), "unlinkat": (263, 35), "renameat": (264, 38),
    "readlinkat": (267, 78), "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73),
    "set_robust_list": (273, 99), "get_robust_list": (274, 100), "fallocate": (285, 47), "preadv": (295, 69),
    "pwritev": (296, 70), "getcpu": (309, 168), "renameat2": (316, 276), "getrandom": (318, 278),
    "membarrier": (324, 283), "pkey_mprotect": (329, 288), "pkey_alloc": (330, 289), "pkey_free": (331, 290),
    "statx": (332, 291), "rseq": (334, 293), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "close_range": (436, 436),
    "faccessat2": (439, 439),
}  # fmt: skip
"""The calls that an interpreter with threads needs for its files and inherited pipes, as numbers of x86-64 and ARM64.

They open no sockets, start no process, and change no owner, permission or time of a file.
"""
_OF_X86 = {
    "open": 2, "stat": 4, "lstat": 6, "poll": 7, "access": 21, "select": 23, "dup2": 33,
    "pause": 34, "alarm": 37, "rename": 82, "mkdir": 83, "rmdir": 84, "unlink": 87,
    "readlink": 89, "getdents": 78, "arch_prctl": 158, "epoll_create": 213, "epoll_wait": 232,
}  # fmt: skip
"""Older calls that the C library still makes on x86-64."""
_CALLS = {
    "x86_64": _Calls(0xC000003E, 56, 16, 157, 302, (*(numbers[0] for numbers in _ALLOWED.values()), *_OF_X86.values())),
    "aarch64": _Calls(0xC00000B7, 220, 29, 167, 261, tuple(numbers[1] for numbers in _ALLOWED.values())),
}
_TERMINALS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""The allowed ioctl requests: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_NAMES = (3, 15, 16, 21, 0x53564D41)
"""The allowed prctl options: PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_SET_VMA."""
_THREAD = 0x10000
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_LOAD, _EQUALS, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OTHER_NUMBERS = 0x40000000
"""From here on are the same calls again, for programs with short pointers."""
_NEWER = 424
"""Calls from here on are unknown to older systems, so that the C library does without."""
_NUMBER_AT, _AUDIT_AT, _FIRST_ARGUMENT_AT, _ARGUMENT_BYTES = 0, 4, 16, 8
_INSTRUCTION = struct.Struct("=HBBI")
_FILTER_MODE = 2


def _bind_calls(kernel: ctypes.CDLL) -> bool:
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return False
    code = _filter(calls)
    program = struct.Struct("@HP")
    text = ctypes.create_string_buffer(code, len(code))
    described = program.pack(len(code) // _INSTRUCTION.size, ctypes.addressof(text))
    return bool(kernel.prctl(_SET_SECCOMP, _FILTER_MODE, described, 0, 0) == 0)


def _filter(calls: _Calls) -> bytes:
    """Return the program that allows the listed calls and nothing else. It refuses a foreign architecture, whose
    numbers differ.
    """
    pack, refused, allow = _INSTRUCTION.pack, _REFUSE | errno.EPERM, _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)
    refuse, unknown = pack(_RETURN, 0, 0, refused), pack(_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    steps = [pack(_LOAD, 0, 0, _AUDIT_AT), pack(_EQUALS, 1, 0, calls.audit), refuse]
    steps += [pack(_LOAD, 0, 0, _NUMBER_AT), pack(_AT_LEAST, 0, 1, _OTHER_NUMBERS), refuse]
    for number in calls.allowed:
        steps += [pack(_EQUALS, 0, 1, number), allow]
    steps += _guarded(calls.ioctl, [*_loaded(1), *_one_of(_TERMINALS)])
    steps += _guarded(calls.prctl, [*_loaded(0), *_one_of(_NAMES)])
    # One's own limits: read, or, of data, set by the worker for each script.
    steps += _guarded(
        calls.prlimit,
        [
            *_loaded(0), pack(_EQUALS, 1, 0, 0), refuse, *_loaded(1), pack(_EQUALS, 0, 1, resource.RLIMIT_DATA), allow,
            *_loaded(2), pack(_EQUALS, 1, 0, 0), refuse, *_loaded(2, 4), pack(_EQUALS, 1, 0, 0), refuse, allow,
        ],
    )  # fmt: skip
    # Threads, no processes.
    steps += _guarded(calls.clone, [*_loaded(0), pack(_HAS, 0, 1, _THREAD), allow, refuse])
    return b"".join([*steps, pack(_AT_LEAST, 0, 1, _NEWER), unknown, refuse])


def _loaded(argument: int, half: int = 0) -> list[bytes]:
    return [_INSTRUCTION.pack(_LOAD, 0, 0, _FIRST_ARGUMENT_AT + argument * _ARGUMENT_BYTES + half)]


def _one_of(values: tuple[int, ...]) -> list[bytes]:
    """Return the instructions that allow the loaded value if it is one of these, else refuse."""
    pack = _INSTRUCTION.pack
    steps = [part for value in values for part in (pack(_EQUALS, 0, 1, value), pack(_RETURN, 0, 0, _ALLOW))]
    return [*steps, pack(_RETURN, 0, 0, _REFUSE | errno.EPERM)]


def _guarded(number: int, steps: list[bytes]) -> list[bytes]:
    """Run the steps for that call; they end it."""
    return [_INSTRUCTION.pack(_EQUALS, 0, len(steps), number), *steps]
