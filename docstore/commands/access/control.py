"""How a process authenticates: the users that it knows, the mechanisms that it takes, what it makes of passwords.

Nothing here waits or draws random numbers by itself: both are handed in by the transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from os import urandom
from typing import Any, TypeVar

from docstore.commands.access.attempts import FailedAttempts
from docstore.commands.parameters import ServerParameter, truth, whole_number
from docstore.errors import NO_CODE, Code, CommandError
from docstore.security.cluster_keys import MECHANISM as CLUSTER_MECHANISM
from docstore.security.cluster_keys import ClusterKeys
from docstore.security.names import SYSTEM, UserName
from docstore.security.pretence import Profile
from docstore.security.scram import (
    DEFAULT_ITERATIONS,
    LEAST_ITERATIONS,
    MECHANISMS,
    SALT_BYTES,
    SHA_1,
    SHA_256,
    Credential,
    secret_of,
)
from docstore.security.scram_server import pretended_credential
from docstore.security.users import KnownBy, NoUsers, User, UserDirectory

T = TypeVar("T")
_ITERATION_PARAMETERS = {"scramIterationCount": SHA_1, "scramSHA256IterationCount": SHA_256}
_MOST = 0x7FFFFFFF
X509 = "MONGODB-X509"
"""Authentication by the certificate that the client has shown."""


async def at_once(work: Callable[[], T]) -> T:
    """Do the work here and now."""
    return work()


async def no_pause(_seconds: float) -> None:
    """Wait for nothing."""


@dataclass(slots=True)
class AccessControl:
    """`random_bytes` gives as many as asked for; `aside` does work that takes milliseconds where it holds nobody up;
    `pause` lets so many seconds go by.

    `enabled`: what users may do is checked. `keys`: by which other processes of the cluster authenticate.
    `localhost_exception`: while there is no user, a client on this machine may make the first. `passes_on`: requests
    are passed on to processes that take this one's word for whose a session is. `secret`: random bytes of this process,
    from which what is pretended of unknown users is made where there are no keys.
    """

    directory: UserDirectory = field(default_factory=NoUsers)
    enabled: bool = False
    keys: ClusterKeys | None = None
    localhost_exception: bool = True
    passes_on: bool = False
    mechanisms: tuple[str, ...] = (X509, *MECHANISMS)
    iterations: dict[str, int] = field(default_factory=lambda: dict(DEFAULT_ITERATIONS))
    had_users: bool = False
    """Whether there has ever been a user or a role: then the localhost exception is over."""
    random_bytes: Callable[[int], bytes] = urandom
    aside: Callable[[Callable[[], Any]], Awaitable[Any]] = at_once
    pause: Callable[[float], Awaitable[None]] = no_pause
    secret: bytes = field(default_factory=lambda: urandom(32), repr=False)
    attempts: FailedAttempts = field(default_factory=FailedAttempts)

    async def find(self, name: UserName) -> User | None:
        """The user as it is now. As `__system` the processes of the cluster are known, and nobody else."""
        if name == SYSTEM:
            return None if self.keys is None else self.keys.user
        return await self.directory.find(name)

    async def known_by(self, name: UserName) -> KnownBy:
        """What the user is known by, as it is now, or seems to be known by; a directory without users says nothing of
        that: then by every mechanism.
        """
        if name == SYSTEM:
            known = KnownBy(None if self.keys is None else self.keys.user.credentials)
        else:
            known = await self.directory.known_by(name, self.pretence)
        return self.completed(known)

    def completed(self, known: KnownBy) -> KnownBy:
        """Have an unknown user seem to have every mechanism, where the directory has no users."""
        return known if known.profile else KnownBy(known.credentials, self.iterations)

    @property
    def pretence(self) -> bytes:
        """From which what is pretended of unknown users is made: where there are keys, the same on all with them."""
        return self.secret if self.keys is None or self.keys.pretence is None else self.keys.pretence

    def pretended(self, mechanism: str, name: UserName, profile: Profile) -> Credential:
        """What a user that does not exist seems to have, by a mechanism that it does not seem to have too."""
        iterations = profile.get(mechanism, self.iterations[mechanism])
        return pretended_credential(mechanism, name, self.pretence, iterations)

    def takes(self, mechanism: str, name: UserName) -> bool:
        """Whether a user of that name may authenticate by the mechanism, one of a password."""
        if mechanism not in MECHANISMS:
            return False
        if name == SYSTEM and self.keys is not None:
            return mechanism == CLUSTER_MECHANISM and self.keys.mode.takes_keys
        return mechanism in self.mechanisms

    async def credentials(self, user: str, password: str, mechanisms: Iterable[str], *, digested: bool) -> list[Any]:
        """What to keep of a password, for each mechanism. `digested`: the client has made its digest already, which
        only SCRAM-SHA-1 can be made of. Errors: NotPreparable.
        """
        secrets = {
            each: password.encode() if digested else secret_of(each, user, password, stored=True) for each in mechanisms
        }
        made: list[Credential] = []
        for mechanism, secret in secrets.items():
            salt, iterations = self.random_bytes(SALT_BYTES[mechanism]), self.iterations[mechanism]
            made.append(await self._derived(mechanism, secret, salt, iterations))
        return made

    async def _derived(self, mechanism: str, secret: bytes, salt: bytes, iterations: int) -> Credential:
        made: Credential = await self.aside(lambda: Credential.derived(mechanism, secret, salt, iterations))
        return made

    def parameters(self) -> tuple[ServerParameter, ...]:
        return (
            *(self._iterations(name, mechanism) for name, mechanism in _ITERATION_PARAMETERS.items()),
            ServerParameter(
                name="authenticationMechanisms",
                get=lambda: list(self.mechanisms),
                put=self._put_mechanisms,
                startup_only=True,
            ),
            ServerParameter(
                name="enableLocalhostAuthBypass",
                get=lambda: self.localhost_exception,
                put=self._put_exception,
                startup_only=True,
            ),
            ServerParameter(
                name="failedLoginsPerAddress",
                get=lambda: self.attempts.allowed,
                put=self._put_attempts,
            ),
        )

    def _put_attempts(self, value: Any) -> None:
        number = whole_number("failedLoginsPerAddress", value)
        if not 0 <= number <= _MOST:
            raise CommandError(
                Code.BadValue, f"Invalid value for parameter failedLoginsPerAddress: {number} is not from 0 to {_MOST}"
            )
        self.attempts.allowed = number

    def _put_mechanisms(self, value: Any) -> None:
        names = value.split(",") if isinstance(value, str) else value
        known = (X509, *MECHANISMS)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise CommandError(NO_CODE, f"there is no mechanism {unknown[0]} here, but {' and '.join(known)}")
        self.mechanisms = tuple(name for name in known if name in names)

    def _put_exception(self, value: Any) -> None:
        self.localhost_exception = truth(value)

    def _iterations(self, name: str, mechanism: str) -> ServerParameter:
        def put(value: Any) -> None:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise CommandError(Code.BadValue, f"Failed validating {name}: Unable to coerce value to integral type")
            number = whole_number(name, value)
            if abs(number) > _MOST:
                raise CommandError(Code.BadValue, f"Failed validating {name}: Out of bounds coercing to integral value")
            if number < LEAST_ITERATIONS:
                raise CommandError(
                    Code.BadValue,
                    f"Invalid value for parameter {name}: {number} is not greater than or equal to {LEAST_ITERATIONS}",
                )
            self.iterations[mechanism] = number

        return ServerParameter(name=name, get=lambda: self.iterations[mechanism], put=put)
