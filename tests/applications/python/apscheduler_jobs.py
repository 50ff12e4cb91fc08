"""APScheduler: jobs in a collection, found by a second scheduler after the first has gone; changed, paused, run."""

import sys
import threading
from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_REMOVED
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.jobstores.mongodb import MongoDBJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from pymongo import MongoClient

RAN, GONE = threading.Event(), threading.Event()
TIMES: list[str] = []


def work(name: str) -> None:
    TIMES.append(name)
    RAN.set()


def scheduler() -> BackgroundScheduler:
    store = MongoDBJobStore(database="apscheduler_jobs", client=MongoClient(sys.argv[1]))
    return BackgroundScheduler(jobstores={"default": store}, timezone=UTC)


def main() -> None:
    with MongoClient(sys.argv[1]) as client:
        client.drop_database("apscheduler_jobs")
    later = datetime.now(UTC) + timedelta(hours=1)
    first = scheduler()
    first.start(paused=True)
    first.add_job(work, "date", run_date=later, args=["once"], id="once")
    first.add_job(work, "cron", hour="3", args=["nightly"], id="nightly")
    first.add_job(work, "interval", hours=2, args=["often"], id="often")
    try:
        first.add_job(work, "date", run_date=later, args=["again"], id="once")
    except ConflictingIdError:
        pass
    else:
        raise AssertionError("two jobs of one id")
    first.shutdown()

    second = scheduler()
    second.start()
    assert {job.id for job in second.get_jobs()} == {"once", "nightly", "often"}
    second.pause_job("nightly")
    assert second.get_job("nightly").next_run_time is None
    second.remove_job("often")
    second.add_listener(lambda event: GONE.set(), EVENT_JOB_REMOVED)
    second.modify_job("once", next_run_time=datetime.now(UTC))
    assert RAN.wait(30)
    assert GONE.wait(30)
    second.shutdown(wait=True)
    assert TIMES == ["once"]
    with MongoClient(sys.argv[1]) as client:
        left = client.apscheduler_jobs.jobs.distinct("_id")
        assert left == ["nightly"], left
        client.drop_database("apscheduler_jobs")


# A job is kept as the name of its function: that of this module, which is `__main__`.
main()
