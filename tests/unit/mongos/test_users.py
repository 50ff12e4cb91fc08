"""What a router knows of users: what they may do for a while, what they are known by never longer than one login."""

from __future__ import annotations

from typing import Any, cast

from docstore.security.names import UserName
from mongos.routing.shards import Shard
from mongos.users import RoutedUsers
from tests.unit.mongos.local import LocalShard
from tests.unit.node.local import loop

ANN, NOBODY = UserName("ann", "d"), UserName("nobody", "d")


async def with_ann() -> tuple[LocalShard, RoutedUsers]:
    config = LocalShard("config")
    await config.node.run({"createUser": "ann", "pwd": "p", "roles": ["dbOwner"]}, "d")
    return config, RoutedUsers(cast(Shard, config), lambda: 0.0)


def asked(config: LocalShard) -> list[dict[str, Any]]:
    return [each for each in config.asked if "usersInfo" in each]


def test_credentials_are_asked_for_at_each_login_whoever_it_is() -> None:
    """A user who has logged in before is not told from one that there is not by a question that is left out, nor by
    all that an owner may do, which the answer would have to say."""

    async def story() -> None:
        config, users = await with_ann()
        assert await users.find(ANN) is not None
        config.asked.clear()
        for name, known in ((ANN, {"SCRAM-SHA-1", "SCRAM-SHA-256"}), (ANN, {"SCRAM-SHA-1", "SCRAM-SHA-256"})):
            found = await users.credentials(name)
            assert found is not None
            assert set(found) == known
        assert await users.credentials(NOBODY) is None
        assert await users.credentials(NOBODY) is None
        questions = [{**each, "usersInfo": None} for each in asked(config)]
        assert len(questions) == 4
        assert all(each == questions[0] and "showPrivileges" not in each for each in questions)

    loop(story())


def test_what_a_user_may_do_is_asked_for_once() -> None:
    async def story() -> None:
        config, users = await with_ann()
        assert await users.find(ANN) is await users.find(ANN)
        assert len(asked(config)) == 1
        users.invalidate()
        assert await users.find(ANN) is not None
        assert len(asked(config)) == 2

    loop(story())
