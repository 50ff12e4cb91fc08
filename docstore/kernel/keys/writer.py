"""A growing byte buffer in which keys are built before they become `bytes`."""

from __future__ import annotations

import cython

from docstore.bson.walk import too_deep
from docstore.errors import CommandError
from docstore.kernel.limits import MAX_BUFFER_BYTES, MAX_SPARE_BUFFER_BYTES

if cython.compiled:
    from cython.cimports.libc.string import memcpy

if not cython.compiled:
    from docstore.bson.walk import MAX_NESTING


class KeyWriter:
    """A reusable buffer that grows: `clear`, write, `contents`. Not thread-safe."""

    size: cython.Py_ssize_t
    _depth: cython.int
    _room: cython.Py_ssize_t
    _buffer: bytearray

    def __init__(self) -> None:
        self.size = 0
        self._depth = 0
        self._room = 64
        self._buffer = bytearray(64)

    def clear(self) -> cython.int:
        """Discard the contents."""
        self.size = 0
        self._depth = 0
        return 0

    def enter(self) -> cython.int:
        """Enter a nested document; Overflow if the nesting is too deep for the machine's stack."""
        if self._depth == MAX_NESTING:
            raise too_deep()
        self._depth += 1
        return 0

    def leave(self) -> cython.int:
        """Leave a nested document."""
        self._depth -= 1
        return 0

    def put(self, byte: cython.int) -> cython.int:
        """Append one byte."""
        if self.size == self._room:
            self._grow(1)
        if cython.compiled:
            target: cython.p_char = cython.cast(cython.p_char, self._buffer)
            target[self.size] = byte
        else:
            self._buffer[self.size] = byte
        self.size += 1
        return 0

    def put_part(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Append the bytes [at, end)."""
        size: cython.Py_ssize_t = end - at
        if size <= 0:
            return 0
        if self._room - self.size < size:
            self._grow(size)
        if cython.compiled:
            target: cython.p_char = cython.cast(cython.p_char, self._buffer) + self.size  # type: ignore[assignment, operator]
            source: cython.p_char = cython.cast(cython.p_char, raw) + at  # type: ignore[assignment, operator]
            memcpy(target, source, size)
        else:
            self._buffer[self.size : self.size + size] = raw[at:end]
        self.size += size
        return 0

    def put_bytes(self, raw: bytes) -> cython.int:
        """Append all of the bytes."""
        return self.put_part(raw, 0, len(raw))

    def put_number(self, number: cython.ulonglong, width: cython.int) -> cython.int:
        """Append a number, big-endian."""
        offset: cython.Py_ssize_t = self._reserve(width) + width
        if cython.compiled:
            target: cython.p_char = cython.cast(cython.p_char, self._buffer)
            while width > 0:
                offset -= 1
                width -= 1
                target[offset] = number & 0xFF
                number >>= 8
        else:
            self._buffer[offset - width : offset] = (number & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")[8 - width :]
        return 0

    def put_digits(self, number: cython.Py_ssize_t) -> cython.int:
        """Append a number that is not negative, as decimal digits."""
        first: cython.Py_ssize_t = self.size
        last: cython.Py_ssize_t
        digit: cython.int
        self.put(48 + number % 10)
        while number >= 10:
            number //= 10
            self.put(48 + number % 10)
        last = self.size - 1
        while first < last:
            digit = self._buffer[first]
            self._buffer[first] = self._buffer[last]
            self._buffer[last] = digit
            first += 1
            last -= 1
        return 0

    def put_little(self, number: cython.ulonglong, width: cython.int) -> cython.int:
        """Append a number, little-endian."""
        return self.set_little(self._reserve(width), number, width)

    def set_little(self, at: cython.Py_ssize_t, number: cython.ulonglong, width: cython.int) -> cython.int:
        """Overwrite the bytes at `at` with a number as `put_little` writes it."""
        if cython.compiled:
            target: cython.p_char = cython.cast(cython.p_char, self._buffer)
            while width > 0:
                target[at] = number & 0xFF
                number >>= 8
                at += 1
                width -= 1
        else:
            self._buffer[at : at + width] = (number & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")[:width]
        return 0

    def begin_document(self) -> cython.Py_ssize_t:
        """Append a placeholder for the length of a document or array; return its offset, for `end_document`."""
        self.enter()
        return self._reserve(4)

    def end_document(self, at: cython.Py_ssize_t) -> cython.int:
        """End the document or array whose length is at that offset."""
        self.leave()
        self.put(0)
        return self.set_little(at, self.size - at, 4)

    def put_member(self, code: cython.int, position: cython.Py_ssize_t) -> cython.int:
        """Append the type and the name of an array's member."""
        self.put(code)
        self.put_digits(position)
        return self.put(0)

    def invert(self, at: cython.Py_ssize_t) -> cython.int:
        """Invert every byte from `at` on, which turns an ascending key into a descending one."""
        while at < self.size:
            self._buffer[at] = self._buffer[at] ^ 0xFF
            at += 1
        return 0

    @cython.cfunc
    def contents(self) -> bytes:
        """Return the bytes written since the last `clear`."""
        if cython.compiled:
            return cython.cast(cython.p_char, self._buffer)[: self.size]  # type: ignore[index, return-value]
        return bytes(self._buffer[: self.size])

    def _reserve(self, width: cython.int) -> cython.Py_ssize_t:
        """Append bytes that are written later; return their offset."""
        at: cython.Py_ssize_t = self.size
        if self._room - at < width:
            self._grow(width)
        self.size = at + width
        return at

    def _grow(self, needed: cython.Py_ssize_t) -> cython.int:
        if self.size + needed > MAX_BUFFER_BYTES:
            size = self.size + needed
            raise CommandError(13548, f"BufBuilder attempted to grow() to {size} bytes, past the 64MB limit.")
        self._room = max(self.size + needed, min(2 * self._room + needed, MAX_BUFFER_BYTES))
        self._buffer.extend(bytes(self._room - len(self._buffer)))
        return 0


_spare: list[KeyWriter] = []
"""A free list of buffers that have not grown large."""


@cython.cfunc
def writer() -> KeyWriter:
    """Return an empty buffer; the caller must give it back."""
    out: KeyWriter = _spare.pop() if _spare else KeyWriter()
    out.clear()
    return out


@cython.cfunc
def take_contents(out: KeyWriter) -> bytes:
    """Return the contents, and give the buffer back."""
    contents: bytes = out.contents()
    give_back(out)
    return contents


def give_back(out: KeyWriter) -> cython.int:
    """Return the buffer to the free list."""
    if out.size <= MAX_SPARE_BUFFER_BYTES:
        _spare.append(out)
    return 0
