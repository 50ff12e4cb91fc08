"""Celery: a worker with the broker and the result store in one database; retries, chains, groups, chords, broadcasts.

The worker is a process of its own, which imports this module for the tasks and takes the database from its environment.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from celery import Celery, chain, chord, group
from pymongo import MongoClient

URI = os.environ.get("CELERY_JOBS_URI") or sys.argv[1]
HOSTS, QUERY = urlsplit(URI).netloc, urlsplit(URI).query
PLACE = f"mongodb://{HOSTS}/celery_jobs" + (f"?{QUERY}" if QUERY else "")

app = Celery("celery_jobs", broker=PLACE, backend=PLACE)
app.conf.update(
    mongodb_backend_settings={"database": "celery_jobs"},
    broker_transport_options={"ttl": True, "calc_queue_size": True},
    result_extended=True,
    task_track_started=True,
)


@app.task
def add(one: int, other: int) -> int:
    return one + other


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def stubborn(self) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task
def fails() -> None:
    raise ValueError("as expected")


def wait_for_worker(worker: subprocess.Popen) -> None:
    for _ in range(60):
        assert worker.poll() is None, "the worker has ended"
        if app.control.ping(timeout=2):
            return
    raise AssertionError("no worker hears broadcasts")


def work() -> None:
    assert add.delay(2, 3).get(timeout=30) == 5
    assert add.apply_async((1, 1), priority=9).get(timeout=30) == 2
    assert chain(add.s(1, 2), add.s(10), add.s(100))().get(timeout=30) == 113
    assert group(add.s(number, number) for number in range(10))().get(timeout=60) == list(range(0, 20, 2))
    assert chord(add.s(number, 1) for number in range(5))(total.s()).get(timeout=60) == 15
    assert stubborn.delay().get(timeout=60) == 2
    failed = fails.delay()
    try:
        failed.get(timeout=30)
    except ValueError as error:
        assert str(error) == "as expected"
    assert failed.state == "FAILURE"
    assert next(iter(app.control.inspect(timeout=5).registered().values()))
    add.apply_async((5, 5), queue="nobody")
    with app.connection_for_read() as connection, connection.channel() as channel:
        assert channel.queue_purge("nobody") == 1


def main() -> None:
    with MongoClient(URI) as client:
        client.drop_database("celery_jobs")
        options = ["worker", "--concurrency", "2", "--loglevel", "ERROR"]
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "celery_jobs", *options],
            cwd=Path(__file__).parent,
            env={**os.environ, "CELERY_JOBS_URI": URI},
        )
        try:
            wait_for_worker(worker)
            work()
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(60)
        assert client.celery_jobs.celery_taskmeta.count_documents({"status": "SUCCESS"}) >= 20
        client.drop_database("celery_jobs")


if __name__ == "__main__":
    main()
