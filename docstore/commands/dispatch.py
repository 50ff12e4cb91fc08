"""Request dispatch: from a request to its reply.

`Dispatcher.handle` answers at once if the command is a plain function: no task, no future. A command that waits returns
a `Pending`, which the transport runs as a task. Only this module adds the common reply fields: `ok`, `operationTime`,
`$clusterTime`, error labels, `topologyVersion`.

- A request that expects a reply gets exactly one (an exhaust stream: one per implied request); one with moreToCome gets
  none.
- A request longer than `LONG_REQUEST_BYTES` is read and admitted on a thread of its own, where the charges of the work
  (`docstore.bson.allowance`) let other tasks run; a pausable command runs there, too.
- A `CommandError` becomes an `ok: 0` reply. Any other exception is logged with its traceback and becomes InternalError,
  except a broken invariant (`AssertionError`), which propagates and stops the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import bson
import cython

from docstore.bson import append_fields
from docstore.bson.allowance import install
from docstore.bson.build import DocumentParts
from docstore.commands.access.authorization import admit, refusal_of_unreadable
from docstore.commands.access.observed_times import observe
from docstore.commands.arguments import Arguments
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context, Services
from docstore.commands.declaration import RESULTS, Response, Result, Role, in_one_piece
from docstore.commands.envelope import ENVELOPE_FIELDS, addressee, open_request, unread_context
from docstore.commands.fail_points.failures import failure_of, hang_up_after
from docstore.commands.fail_points.registry import Failure, InducedError
from docstore.commands.gossip import NO_GOSSIP, EncodedGossip
from docstore.commands.limits import LONG_REQUEST_BYTES
from docstore.commands.operations.registry import Operation
from docstore.commands.operations.relay import Relay
from docstore.commands.operations.slow_queries import log_slow
from docstore.commands.sessions.error_labels import (
    RETRYABLE_WRITE_CODES,
    RETRYABLE_WRITE_LABEL,
    VERSIONED_CODES,
    induce,
    label_write_concern_error,
)
from docstore.commands.sessions.transactions import ENDING, TRANSIENT_LABEL, is_transient
from docstore.commands.supervision import SUPERVISION, Supervised
from docstore.errors import Code, CommandError, no_scripting
from docstore.log import component
from docstore.query.pausing import OVERTAKEN, PAUSING
from docstore.query.scripts import ScriptsWanted
from docstore.wire.message import EXHAUST_ALLOWED, Message
from docstore.wire.query import WRITES

LOG = component("COMMAND")
_OK = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f"
_WHOLE_OK = b"\x10ok\0\1\0\0\0"
_EMPTY = b"\x05\0\0\0\0"


class StreamedReply(NamedTuple):
    """One reply of an exhaust stream. `following`: the next implied request."""

    body: bytes
    following: Message


Outcome = bytes | StreamedReply | None
"""A reply's body; one of a stream; None if the request expects no reply."""


class Pending:
    """A request whose command waits.

    The transport awaits `finish()` in a task, and sets `operation.on_kill` so that a kill cancels it; `interrupted()`
    is the outcome then. `convert` maps the reply's body to the outcome of a request that was not OP_MSG.
    `relay`: the transport may start it and pass its answer to `answered` instead, without a task. `deadline`: when the
    transport should kill the operation, in seconds of `services.clock`; None: never.
    """

    __slots__ = ("_arguments", "_awaitable", "_dispatcher", "_request", "context", "convert", "deadline", "operation")

    def __init__(
        self,
        dispatcher: Dispatcher,
        request: Message,
        context: Context,
        arguments: Arguments | None,
        awaitable: Awaitable[Result] | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._request = request
        self._arguments = arguments
        self._awaitable = awaitable
        self.context = context
        self.operation: Operation = context.operation
        self.convert: Callable[[bytes], bytes | None] | None = None
        # For a command with its own deadline, maxTimeMS has another meaning.
        progress = context.begun_progress
        own = None if progress is None else progress.deadline
        self.deadline = context.deadline if own is None and not context.command.own_deadline else own

    @property
    def wants_reply(self) -> bool:
        return not self._request.more_to_come and self._request.opcode not in WRITES

    @property
    def relay(self) -> Relay | None:
        return self._awaitable if isinstance(self._awaitable, Relay) and not self._request.flags else None

    def answered(self, result: bytes) -> Outcome:
        """Return the outcome of a request whose relay has answered."""
        dispatcher, context = self._dispatcher, self.context
        SUPERVISION.ended(context)
        dispatcher.note(context)
        body = dispatcher.complete(context, result)
        context.services.operations.finish(self.operation)
        if context.services.observers:
            dispatcher.tell(context, body)
        return self._outcome(context, body)

    async def finish(self) -> Outcome:
        """Await the command and return its outcome. Raises only what stops a task or the process."""
        dispatcher = self._dispatcher
        try:
            result = await self._result()
            body = dispatcher.complete(self.context, result)
        except CommandError as error:
            body = dispatcher.refuse(error, self.context)
        except AssertionError:
            raise
        except Exception as error:
            body = dispatcher.refuse_unexpected(error, self.context)
        finally:
            dispatcher.services.operations.finish(self.operation)
        if dispatcher.services.observers and self._arguments is not None:
            dispatcher.tell(self.context, body)
        return self._outcome(self.context, body)

    async def _result(self) -> Result:
        assert self._arguments is not None, "the request is read"
        assert self._awaitable is not None, "its command has begun"
        return await self._dispatcher.timed(self.context, self._arguments, self._awaitable)

    def given_up(self) -> Outcome:
        """Return the outcome of an operation that was killed while its relay waited."""
        self._dispatcher.note(self.context)
        outcome = self.interrupted()
        self.context.services.operations.finish(self.operation)
        return outcome

    def interrupted(self) -> Outcome:
        """Return the outcome of an operation that was killed while it waited."""
        error = self.operation.error
        assert error is not None, "only a killed operation is interrupted"
        return self._outcome(None, self._dispatcher.refuse(error, self.context))

    def _outcome(self, context: Context | None, body: bytes) -> Outcome:
        return self._dispatcher.outcome(self._request, context, body) if self.convert is None else self.convert(body)


class LongRequest(Pending):
    """A request so long that others run, or kill it, while it is read. Until then it has an `unread_context`."""

    __slots__ = ()

    async def _result(self) -> Result:
        dispatcher, run_on_thread = self._dispatcher, self._dispatcher.services.run_on_thread
        assert run_on_thread is not None, "else it is no long request"
        arguments: Arguments = await Supervised(self.context, run_on_thread(self._read))
        context = self.context
        if not context.command.pausable:
            return await dispatcher.timed(context, arguments, dispatcher.run_admitted(None, context, arguments))
        context.progress.apart = True
        work = run_on_thread(lambda: dispatcher.run_admitted(None, context, arguments))
        return await dispatcher.timed(context, arguments, work)

    async def _read(self) -> Arguments:
        """Read the request and admit it, on a thread. Errors: those of both."""
        unread, services = self.context, self._dispatcher.services
        PAUSING.level = OVERTAKEN
        try:
            context, arguments = open_request(self._request, unread.connection, services, unread.started)
            unread.hand_over(context)
            self.operation.context = self.context = context
            self._arguments = arguments
            access, generation = services.access, -1
            # Users and roles may change while the needs of a long request are judged.
            while access.enabled and generation != access.directory.generation:
                generation = access.directory.generation
                admission = admit(access, context, arguments)
                if admission is not None:
                    await admission
            return arguments
        except CommandError as error:
            if self._arguments is None and services.access.enabled:
                raise refusal_of_unreadable(services, *addressee(self._request), unread.connection, error) from None
            raise
        finally:
            PAUSING.level = 0
            SUPERVISION.ended(unread)


class Dispatcher:
    """Serves one table of commands.

    `translate` maps an exception to a `CommandError` if clients can use it (a transport failure behind a router), else
    to None.
    """

    __weakref__: object

    def __init__(
        self, services: Services, *, translate: Callable[[Exception], CommandError | None] = lambda _error: None
    ) -> None:
        for command in services.table:
            hidden = ENVELOPE_FIELDS & command.by_name.keys()
            assert not hidden, f"{command.name} declares {sorted(hidden)}, which every command has"
        install(SUPERVISION.look)
        self.services = services
        self._translate = translate
        self._gossip: EncodedGossip = NO_GOSSIP
        self._tail: bytes = _OK
        self._last_cluster_time = b""

    def handle(self, request: Message, peer: ClientConnection) -> Outcome | Pending:
        """Answer a request, or begin to."""
        services = self.services
        started = services.clock()
        context: Context | None = None
        if len(request.body) > LONG_REQUEST_BYTES and services.run_on_thread is not None:
            unread = unread_context(request, peer, services, started)
            if unread is not None:
                return LongRequest(self, request, unread, None, None)
        try:
            context, arguments = open_request(request, peer, services, started)
            SUPERVISION.context, SUPERVISION.until = context, 0.0
            access = services.access
            admission = admit(access, context, arguments) if access.enabled else None
            if admission is None:
                result = self._run(context, arguments)
            else:
                result = self.run_admitted(admission, context, arguments)
            if not isinstance(result, RESULTS):
                return Pending(self, request, context, arguments, result)
            body = self.complete(context, result)
        except CommandError as error:
            if context is None and services.access.enabled:
                error = refusal_of_unreadable(services, *addressee(request), peer, error)
            body = self.refuse(error, context)
        except AssertionError:
            raise
        except Exception as error:
            body = self.refuse_unexpected(error, context)
        finally:
            SUPERVISION.context, PAUSING.level = None, 0
        if context is not None:
            SUPERVISION.ended(context)
            seconds = services.clock() - started
            services.metrics.add(context.reported_namespace, context.command.name, seconds)
            if seconds * 1000 >= services.switches.slow_ms:
                log_slow(context, len(body))
            if services.observers:
                self.tell(context, body)
            progress = context.begun_progress
            if progress is not None and progress.operation is not None:
                services.operations.finish(progress.operation)
        if request.flags:
            return self.outcome(request, context, body)
        return body

    async def run_admitted(self, admission: Awaitable[None] | None, context: Context, arguments: Arguments) -> Result:
        """Run a command once its admission is decided; None if it is."""
        if admission is not None:
            await admission
        result = self._run(context, arguments)
        return result if isinstance(result, RESULTS) else await result

    @cython.ccall
    def _run(self, context: Context, arguments: Arguments) -> Response:
        services = self.services
        time = context.cluster_time
        if time is not None and time != self._last_cluster_time and observe(time, context, self._gossip.cluster_time):
            self._last_cluster_time = time
        if context.session is not None and (context.identity is not None or not services.access.enabled):
            # Unauthenticated clients leave no session behind.
            services.sessions.touch(context.session.lsid, context.started)
        if services.switches.require_api_version and context.api_version is None:
            raise CommandError(498870, "The apiVersion parameter is required: every command must name an API version")
        point = services.fail_points
        if point is not None and point.active:
            failure = failure_of(point, context)
            if failure is not None:
                return self._suffer(failure, context, arguments)
        return self._answer(context, arguments)

    def _suffer(self, failure: Failure, context: Context, arguments: Arguments) -> Response:
        if failure.seconds is not None:
            return self._stall(failure, failure.seconds, context, arguments)
        if failure.hang_up:
            context.connection.hang_up()
            raise CommandError(Code.ClientDisconnect, "a fail point closed the connection")
        if failure.error is not None:
            raise failure.error
        context.progress.induced = failure
        return self._answer(context, arguments)

    async def _stall(self, failure: Failure, seconds: float, context: Context, arguments: Arguments) -> Result:
        point = self.services.fail_points
        assert point is not None, "it made the failure"
        await point.sleep(seconds)
        result = self._suffer(failure._replace(seconds=None), context, arguments)
        return result if isinstance(result, RESULTS) else await result

    @cython.ccall
    def _answer(self, context: Context, arguments: Arguments) -> Response:
        services = self.services
        command = context.command
        if context.help_asked:
            return {"help": f"help for: {command.name} {command.help}"}
        if command.role is Role.SECONDARY_OK:
            services.host.check_read(context.read_preference)
        elif command.role is Role.PRIMARY and context.db != "local":
            services.host.check_write()
        if context.session is not None and context.session.in_transaction:
            if services.transactions is None:
                raise CommandError(Code.OperationNotSupportedInTransaction, "This process carries out no transactions")
            return services.transactions.run(context, arguments, self._execute)
        return self._execute(context, arguments)

    @cython.ccall
    def _execute(self, context: Context, arguments: Arguments) -> Response:
        try:
            return context.command.run(context, arguments)
        except ScriptsWanted:
            return self._carry_out(context, arguments)

    def _carry_out(self, context: Context, arguments: Arguments) -> Awaitable[Result]:
        """Run the command from the start, where scripts can run."""
        services = self.services
        if services.carry_out is None:
            raise no_scripting()
        return services.carry_out(context, lambda: context.command.run(context, arguments))

    async def timed(self, context: Context, arguments: Arguments, result: Awaitable[Result]) -> Result:
        """Await a command's result, and record it at the end."""
        try:
            return await Supervised(context, result)
        except ScriptsWanted:
            return await Supervised(context, self._carry_out(context, arguments))
        finally:
            SUPERVISION.ended(context)
            self.note(context)

    def note(self, context: Context) -> None:
        """Count a command that waited, and log it if it was slow."""
        command = context.command
        waits_for_news = command.own_deadline or command.following is not None
        services = self.services
        seconds = services.clock() - context.started
        services.metrics.add(context.reported_namespace, command.name, seconds)
        if not waits_for_news and seconds * 1000 >= services.switches.slow_ms:
            log_slow(context)

    @cython.ccall
    def complete(self, context: Context, result: Result) -> bytes:
        """Return the body of a successful reply."""
        session = context.session
        retried = (
            session is not None
            and session.txn_number is not None
            # In a transaction only its end is retryable by itself.
            and (not session.in_transaction or context.command.name in ENDING)
        )
        progress = context.begun_progress
        induced = None if progress is None else progress.induced
        tail = self._reply_tail()
        if progress is not None and progress.whole_ok:
            tail = _WHOLE_OK + tail[len(_OK) :]
        if isinstance(result, DocumentParts) and induced is None and not retried:
            return result.document(tail)
        reply = in_one_piece(result)
        body = reply if isinstance(reply, bytes) else bson.encode(reply) if reply else _EMPTY
        if induced is not None:
            body = induce(body, induced, retried=retried)
            hang_up_after(context)
        elif retried:
            body = label_write_concern_error(body, self.services.host)
        return append_fields(body, tail)

    @cython.ccall
    def _reply_tail(self) -> bytes:
        """Return `ok: 1` and the gossip, encoded; cached while the gossip is unchanged."""
        gossip = self.services.host.gossip()
        if gossip is not self._gossip:
            self._gossip = gossip
            self._tail = _OK + gossip.fields
        return self._tail

    def refuse(self, error: CommandError, context: Context | None) -> bytes:
        """Count an error and return the body of its `ok: 0` reply."""
        self.services.metrics.fail(None if context is None else context.command.name)
        # Its frames reference the request's data, and often the error itself.
        error.__traceback__ = error.__context__ = None
        if context is not None:
            hang_up_after(context)
        labels = list(error.labels)
        session = None if context is None else context.session
        retried = session is not None and session.txn_number is not None
        if isinstance(error, InducedError) and error.labelled:
            retried = False
        elif context is not None and session is not None and session.in_transaction:
            # In a transaction only its end is retryable by itself.
            ends = retried = context.command.name in ENDING
            is_transaction_lost = is_transient(error.code, ends=ends) and "writeConcernError" not in error.extra
            if is_transaction_lost and TRANSIENT_LABEL not in labels:
                labels.append(TRANSIENT_LABEL)
        if retried and error.code in RETRYABLE_WRITE_CODES and RETRYABLE_WRITE_LABEL not in labels:
            labels.append(RETRYABLE_WRITE_LABEL)
        reply: dict[str, Any] = {"errorLabels": labels, **error.reply()} if labels else error.reply()
        host = self.services.host
        if error.code in VERSIONED_CODES and "topologyVersion" not in reply:
            version = host.state_version()
            if version is not None:
                reply["topologyVersion"] = version
        return append_fields(bson.encode(reply), host.gossip().fields)

    def refuse_unexpected(self, error: Exception, context: Context | None) -> bytes:
        """Return the body of the reply to a request that failed with an unexpected exception."""
        translated = self._translate(error)
        if translated is not None:
            return self.refuse(translated, context)
        name = context.command.name if context is not None else "unknown"
        LOG.error("Command failed unexpectedly", command=name, error=repr(error), exc_info=error)
        return self.refuse(
            CommandError(Code.InternalError, f"internal error in {name}: {type(error).__name__}"), context
        )

    def outcome(self, request: Message, context: Context | None, body: bytes) -> Outcome:
        """Return the transport's action for a body: None for moreToCome, a stream's next request for exhaust."""
        if request.more_to_come:
            return None
        if request.flags & EXHAUST_ALLOWED and context is not None and context.command.following is not None:
            next_body = context.command.following(context, body)
            if next_body is not None:
                return StreamedReply(body, request._replace(body=next_body))
        return body

    def tell(self, context: Context, body: bytes) -> None:
        """Call the observers with an answered request."""
        for observer in list(self.services.observers):
            observer(context, body)
