"""Authentication settings of a process: its users, mechanisms, and stored credentials.

Nothing here waits or draws random numbers by itself: the transport passes both in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from os import urandom
from typing import Any, TypeVar

from docstore.commands.access.attempts import FailedAttempts
from docstore.commands.parameters import ServerParameter, truth, whole_number
from docstore.errors import NO_CODE, Code, CommandError
from docstore.query.value.values import INT_MAX
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
X509 = "MONGODB-X509"
"""Authentication by the client's TLS certificate."""


async def at_once(work: Callable[[], T]) -> T:
    """Run `work` in this task."""
    return work()


async def no_pause(_seconds: float) -> None:
    """Return without waiting."""


@dataclass(slots=True)
class AccessControl:
    """`random_bytes(n)` returns n bytes; `aside` runs CPU work of milliseconds off the event loop; `pause` sleeps.

    `enabled`: access control is on. `keys`: the credentials of other cluster processes. `localhost_exception`: while
    there is no user, a local client may create the first. `passes_on`: requests are relayed to processes that trust
    this one's statement of the session's user. `secret`: random bytes of this process; it seeds the fake credentials of
    unknown users if there are no keys.
    """

    directory: UserDirectory = field(default_factory=NoUsers)
    enabled: bool = False
    keys: ClusterKeys | None = None
    localhost_exception: bool = True
    passes_on: bool = False
    mechanisms: tuple[str, ...] = (X509, *MECHANISMS)
    iterations: dict[str, int] = field(default_factory=lambda: dict(DEFAULT_ITERATIONS))
    had_users: bool = False
    """True if a user or role has ever existed, which ends the localhost exception."""
    random_bytes: Callable[[int], bytes] = urandom
    aside: Callable[[Callable[[], Any]], Awaitable[Any]] = at_once
    pause: Callable[[float], Awaitable[None]] = no_pause
    secret: bytes = field(default_factory=lambda: urandom(32), repr=False)
    attempts: FailedAttempts = field(default_factory=FailedAttempts)

    async def find(self, name: UserName) -> User | None:
        """Return the current user. `__system` stands for the processes of the cluster."""
        if name == SYSTEM:
            return None if self.keys is None else self.keys.user
        return await self.directory.find(name)

    async def known_by(self, name: UserName) -> KnownBy:
        """Return the current credentials of the user, or fake ones for an unknown user.

        A directory without users fakes nothing: then every mechanism is reported.
        """
        if name == SYSTEM:
            credentials = KnownBy(None if self.keys is None else self.keys.user.credentials)
        else:
            credentials = await self.directory.known_by(name, self.pretence)
        return self.completed(credentials)

    def completed(self, credentials_and_profile: KnownBy) -> KnownBy:
        """Fill in every mechanism for an unknown user, if the directory has no users."""
        return (
            credentials_and_profile
            if credentials_and_profile.profile
            else KnownBy(credentials_and_profile.credentials, self.iterations)
        )

    @property
    def pretence(self) -> bytes:
        """The seed of fake credentials; with keys, the same on all processes that share them."""
        return self.secret if self.keys is None or self.keys.pretence is None else self.keys.pretence

    def pretended(self, mechanism: str, name: UserName, profile: Profile) -> Credential:
        """Return the fake credential of an unknown user, also for a mechanism that its fake profile lacks."""
        iterations = profile.get(mechanism, self.iterations[mechanism])
        return pretended_credential(mechanism, name, self.pretence, iterations)

    def takes(self, mechanism: str, name: UserName) -> bool:
        """True if a user of that name may authenticate by this password mechanism."""
        if mechanism not in MECHANISMS:
            return False
        if name == SYSTEM and self.keys is not None:
            return mechanism == CLUSTER_MECHANISM and self.keys.mode.takes_keys
        return mechanism in self.mechanisms

    async def credentials(self, user: str, password: str, mechanisms: Iterable[str], *, digested: bool) -> list[Any]:
        """Return the credentials to store for a password, one per mechanism.

        `digested`: the client sent the MD5 digest, which suffices for SCRAM-SHA-1 only. Errors: NotPreparable.
        """
        secrets: dict[str, bytes] = await self.aside(
            lambda: {
                name: password.encode() if digested else secret_of(name, user, password, stored=True)
                for name in mechanisms
            }
        )
        credentials: list[Credential] = []
        for mechanism, secret in secrets.items():
            salt, iterations = self.random_bytes(SALT_BYTES[mechanism]), self.iterations[mechanism]
            credentials.append(await self._derived(mechanism, secret, salt, iterations))
        return credentials

    async def _derived(self, mechanism: str, secret: bytes, salt: bytes, iterations: int) -> Credential:
        credential: Credential = await self.aside(lambda: Credential.derived(mechanism, secret, salt, iterations))
        return credential

    def parameters(self) -> tuple[ServerParameter, ...]:
        return (
            *(self._iterations(name, mechanism) for name, mechanism in _ITERATION_PARAMETERS.items()),
            ServerParameter(
                name="authenticationMechanisms",
                get=lambda: list(self.mechanisms),
                assign=self._put_mechanisms,
                startup_only=True,
            ),
            ServerParameter(
                name="enableLocalhostAuthBypass",
                get=lambda: self.localhost_exception,
                assign=self._put_exception,
                startup_only=True,
            ),
            ServerParameter(
                name="failedLoginsPerAddress",
                get=lambda: self.attempts.allowed,
                assign=self._put_attempts,
            ),
        )

    def _put_attempts(self, value: Any) -> None:
        number = whole_number("failedLoginsPerAddress", value)
        if not 0 <= number <= INT_MAX:
            raise CommandError(
                Code.BadValue,
                f"Invalid value for parameter failedLoginsPerAddress: {number} is not from 0 to {INT_MAX}",
            )
        self.attempts.allowed = number

    def _put_mechanisms(self, value: Any) -> None:
        names = value.split(",") if isinstance(value, str) else value
        supported = (X509, *MECHANISMS)
        unknown = [name for name in names if name not in supported]
        if unknown:
            raise CommandError(NO_CODE, f"there is no mechanism {unknown[0]} here, but {' and '.join(supported)}")
        self.mechanisms = tuple(name for name in supported if name in names)

    def _put_exception(self, value: Any) -> None:
        self.localhost_exception = truth(value)

    def _iterations(self, name: str, mechanism: str) -> ServerParameter:
        def assign(value: Any) -> None:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise CommandError(Code.BadValue, f"Failed validating {name}: Unable to coerce value to integral type")
            number = whole_number(name, value)
            if abs(number) > INT_MAX:
                raise CommandError(Code.BadValue, f"Failed validating {name}: Out of bounds coercing to integral value")
            if number < LEAST_ITERATIONS:
                raise CommandError(
                    Code.BadValue,
                    f"Invalid value for parameter {name}: {number} is not greater than or equal to {LEAST_ITERATIONS}",
                )
            self.iterations[mechanism] = number

        return ServerParameter(name=name, get=lambda: self.iterations[mechanism], assign=assign)
