"""What a worker process gives up before it runs anybody's code, in case that code gets out of its isolate.

From then on the process leaves no core file, can read but the interpreter's own files, writes below its spill
directory alone, opens no socket, starts no process and looks into none, and neither gains rights nor gives up these
limits; its threads, started later, are bound as it is. Which of it holds depends on the kernel: Landlock (files) is in
Linux since 5.13, filters of system calls are since 3.17. Nothing happens on other systems.
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


class Held(NamedTuple):
    """What the kernel has taken on."""

    files: bool
    calls: bool


def confine(writable: Path) -> Held:
    """Bind this process. Call it before it has other threads."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return Held(files=False, calls=False)
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.prctl(_SET_DUMPABLE, 0, 0, 0, 0) or kernel.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return Held(files=False, calls=False)
    return Held(files=_bind_files(kernel, writable), calls=_bind_calls(kernel))


def offered() -> Held:
    """What this system would take on, as far as it can be asked without being bound."""
    if sys.platform != "linux":
        return Held(files=False, calls=False)
    kernel = ctypes.CDLL(None, use_errno=True)
    filters = platform.machine() in _CALLS and kernel.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0
    return Held(files=_version(kernel) >= 1, calls=filters)


def warn_where_scripts_are_free() -> None:
    """Tell the operator at the start what stands open to a script that gets out of its isolate here."""
    held = offered()
    if not held.files:
        LOG.startup_warning("Users' scripts are not kept from files by this system, which has no Landlock (Linux 5.13)")
    if not held.calls:
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
"""How many rights over files there are in a version; 16 in those that follow."""
_NETWORK_SINCE, _CONNECT_AND_BIND = 4, 3
_RULESET = struct.Struct("=QQ")
_RULE = struct.Struct("=Qi")
_OF_THE_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/proc/self/status")


def _version(kernel: ctypes.CDLL) -> int:
    """Of Landlock; below 1: it is not there."""
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
    """Where modules and libraries lie. Not the directories that the server was started in and that the package is in,
    unless packages alone are there: these may hold data.
    """
    own = Path(docstore.__file__).parent
    modules = {Path(path) for path in sys.path[1:] if path}
    if not own.parent.name.endswith("-packages"):
        modules.discard(own.parent)
    return {*modules, own, *map(Path, (sys.prefix, sys.base_prefix, *_OF_THE_SYSTEM))}


def _allow(kernel: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not path.is_dir():
            rights &= _READ_FILE
        kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(rights, place), 0)
    finally:
        os.close(place)


# System calls, by a filter: https://docs.kernel.org/userspace-api/seccomp_filter.html


class _Calls(NamedTuple):
    """The numbers of an architecture. `refused`: sockets (socket, socketpair, connect, bind, listen), other programs
    (execve, execveat, fork, vfork), other processes (ptrace, process_vm_readv, process_vm_writev, kill), the system
    (mount, umount2, unshare, setns, bpf, perf_event_open, keyctl, userfaultfd); io_uring_setup, pidfd_send_signal and
    pidfd_getfd have the same numbers everywhere.
    """

    audit: int
    clone: int
    refused: tuple[int, ...]


_COMMON = (425, 424, 438)
_CALLS = {
    "x86_64": _Calls(
        0xC000003E, 56,
        (41, 53, 42, 49, 50, 59, 322, 57, 58, 101, 310, 311, 62, 165, 166, 272, 308, 321, 298, 250, 323, *_COMMON),
    ),
    "aarch64": _Calls(
        0xC00000B7, 220,
        (198, 199, 203, 200, 201, 221, 281, 117, 270, 271, 129, 40, 39, 97, 268, 280, 241, 219, 282, *_COMMON),
    ),
}  # fmt: skip
_CLONE3 = 435
_THREAD = 0x10000
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_LOAD, _EQUALS, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OTHER_NUMBERS = 0x40000000
"""From here on are the same calls again, for programs with short pointers."""
_NUMBER_AT, _AUDIT_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
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
    """Of a foreign architecture, whose numbers mean something else, nothing is allowed."""
    refused = _REFUSE | errno.EPERM
    one = _INSTRUCTION.pack
    steps = [one(_LOAD, 0, 0, _AUDIT_AT), one(_EQUALS, 1, 0, calls.audit), one(_RETURN, 0, 0, refused)]
    steps += [one(_LOAD, 0, 0, _NUMBER_AT), one(_AT_LEAST, 0, 1, _OTHER_NUMBERS), one(_RETURN, 0, 0, refused)]
    for number in calls.refused:
        steps += [one(_EQUALS, 0, 1, number), one(_RETURN, 0, 0, refused)]
    # Its flags lie in memory, where a filter does not see them; the C library asks for the older call then.
    steps += [one(_EQUALS, 0, 1, _CLONE3), one(_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
    steps += [one(_EQUALS, 0, 3, calls.clone), one(_LOAD, 0, 0, _FIRST_ARGUMENT_AT)]
    steps += [one(_HAS, 1, 0, _THREAD), one(_RETURN, 0, 0, refused)]
    return b"".join([*steps, one(_RETURN, 0, 0, _ALLOW)])
