"""Lines typed at a terminal: history, completion with the tab key, colours while typing, pasted text."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.lexers import DynamicLexer, Lexer, PygmentsLexer
from prompt_toolkit.shortcuts import CompleteStyle

from shell.bindings.session import Interrupted, ScriptFailure, Session
from shell.lines import Lines

HISTORY = Path("~/.docstore_history")
_WORD_OF_COMMAND = re.compile(r"^\s*(?:use|show|help)\s+(\S*)$")
_LAST_WORD = re.compile(r"([\w$]*)$")


_SECRET = re.compile(
    r"\b(createUser|updateUser|addUser|changeUserPassword|auth|logIn|passwordPrompt|pwd|password)\b|mongodb(\+srv)?://[^/@\s]*@"
)


class History(FileHistory):
    """The typed lines, in a file private to the user; lines that may hold a password are not stored."""

    def store_string(self, string: str) -> None:
        if _SECRET.search(string):
            return
        os.close(os.open(self.filename, os.O_WRONLY | os.O_CREAT, 0o600))
        super().store_string(string)


def terminal_lines(session: Session) -> Lines:
    """Yield the lines typed at a terminal. Pasted lines are taken as if typed."""
    prompts: PromptSession[str] = PromptSession(
        history=History(str(HISTORY.expanduser())),
        completer=Names(session),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        reserve_space_for_menu=0,
        enable_history_search=True,
        lexer=DynamicLexer(lambda: _lexer() if session.screen.colour and prompts.default_buffer.text else None),
    )
    pasted: deque[str] = deque()

    def read(prompt: str) -> str:
        if pasted:
            line = pasted.popleft()
            session.screen.write(f"{prompt}{line}\n")
            return line
        try:
            first, *lines = prompts.prompt(prompt).split("\n")
        except KeyboardInterrupt:
            pasted.clear()
            raise
        pasted.extend(lines)
        return first

    return read


class Names(Completer):
    """Completions at the cursor, from the prelude."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        word = _WORD_OF_COMMAND.match(text) or _LAST_WORD.search(text)
        assert word is not None
        try:
            names = self._session.completions(text)
        except (ScriptFailure, Interrupted):
            return
        for name in names:
            yield Completion(name, start_position=-len(word[1]))


@cache
def _lexer() -> Lexer:
    from pygments.lexers.javascript import JavascriptLexer  # the first prompt need not wait for it

    return PygmentsLexer(JavascriptLexer)
