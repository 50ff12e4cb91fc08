from __future__ import annotations

from docstore.sharding.donor import State
from mongod.migration.donor.phases import Phases


def test_each_state_is_told_with_the_time_from_its_beginning_to_the_next() -> None:
    phases = Phases(10.0, State.STARTING)
    phases.reached(State.STARTING, 10.2)
    phases.reached(State.PREPARING, 10.5)
    assert phases.milliseconds() == {"starting": 500}
    phases.reached(State.CLONING, 12.0)
    phases.reached(State.CLONING, 15.0)
    phases.reached(State.CATCHING_UP, 16.0)
    assert phases.milliseconds() == {"starting": 500, "preparing": 1500, "cloning": 4000}
