"""The console in a browser: what is seen, by keyboard too, and that nothing in the data is ever markup."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docstore.commands.concerns import ReadPreference
from docstore.errors import Code, CommandError
from scripts.deployment import Member
from tests.cluster.routed import routed_cluster
from tests.harness.browser import PROGRAM, Page, browser_page
from tests.harness.certificates import Authority
from tests.harness.serving import LOOPBACK, run
from tests.unit.console.certified import ANN, Clients
from tests.unit.console.served import PASSWORD, Console, console

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")]
SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
SHIFT = 8
CONTROL = 2


async def filled(served: Console) -> None:
    """Names and values that would be markup, on a node where nobody has to log in yet."""
    documents = [{"_id": number, "n": number, IMAGE: [SCRIPT, {IMAGE: IMAGE}]} for number in range(30)]
    await served.node.run({"insert": SCRIPT, "documents": documents}, "shop")
    await served.node.run({"createIndexes": SCRIPT, "indexes": [{"key": {"n": 1}, "name": IMAGE}]}, "shop")
    await served.node.run({"insert": "orders", "documents": documents}, "shop")


def without_complaints(page: Page) -> None:
    assert not page.complaints
    page.complaints.clear()


def test_documents_names_and_plans_are_text_whatever_they_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with console() as served, browser_page(tmp_path) as page:
            await filled(served)
            await page.open(f"http://{served.host}/#/data/shop")
            await page.reads(SCRIPT)
            await page.evaluate("document.querySelector('tbody a').click()")
            await page.reads("Documents 1 to 20")
            text = await page.text()
            assert json.dumps(IMAGE) in text
            assert text.count(SCRIPT) > 20
            await page.reads("Uses are counted")
            assert IMAGE in await page.evaluate("document.querySelector('section[aria-label=Indexes]').innerText")
            await page.evaluate("document.getElementById('query-filter').focus()")
            await page.type(f"{{ n: {{ $gte: 3 }}, {json.dumps(IMAGE)}: {{ $ne: {json.dumps(SCRIPT)} }} }}")
            await page.evaluate(
                "[...document.querySelectorAll('button')].find(e => e.textContent == 'Explain').click()"
            )
            await page.reads("IXSCAN")
            assert IMAGE in await page.evaluate("document.querySelector('.plan').innerText")
            await page.open(f"http://{served.host}/#/command")
            await page.until("document.getElementById('command-text')")
            await page.evaluate("(e => { e.focus(); e.select(); })(document.getElementById('command-text'))")
            await page.type(f"{{ {json.dumps(IMAGE)}: 1 }}")
            await page.press("Enter", CONTROL)
            await page.reads(f"no such command: '{IMAGE}'")
            injected = "document.querySelectorAll('main img, main script, [onerror]').length"
            assert await page.evaluate(injected) == 0
            without_complaints(page)

    run(scenario(), 60)


def test_a_secondary_shows_its_documents(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with console() as served, browser_page(tmp_path) as page:
            await filled(served)

            def check_read(preference: ReadPreference) -> None:
                if not preference.secondary_ok:
                    raise CommandError(Code.NotPrimaryNoSecondaryOk, "not master and slaveOk=false")

            served.node.replication.check_read = check_read
            await page.open(f"http://{served.host}/#/data")
            await page.until("document.querySelector('tbody a')")
            for place, expected in (("shop", SCRIPT), ("shop/orders", "Documents 1 to 20")):
                await page.open(f"http://{served.host}/#/data/{place}")
                await page.reads(expected)
            await page.reads("Uses are counted")
            await page.evaluate(
                "[...document.querySelectorAll('button')].find(e => e.textContent == 'Explain').click()"
            )
            await page.reads("COLLSCAN")
            await page.open(f"http://{served.host}/#/operations")
            await page.reads("The log has no slow operation.")
            without_complaints(page)

    run(scenario(), 60)


async def typed(page: Page, text: str, expected: str) -> None:
    """Run a line of the shell and wait until what is expected can be read behind it."""
    await page.evaluate("document.getElementById('shell-line').focus()")
    await page.type(text)
    await page.press("Enter")
    shown = "document.querySelector('.terminal').innerText"
    await page.until(f"{shown}.slice({shown}.lastIndexOf({json.dumps(f'> {text}')})).includes({json.dumps(expected)})")
    await page.until("document.querySelector('.shell-line button').disabled")


def test_the_shell_in_the_page_is_the_shell(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with console(auth=True) as served, browser_page(tmp_path) as page:
            await page.open(f"http://{served.host}/#/shell")
            await page.until("document.activeElement.id == 'login-user'")
            await page.type("root")
            await page.press("Tab")
            await page.type(PASSWORD)
            await page.press("Enter")
            await page.until("document.querySelector('.shell-line button')?.disabled")
            await typed(
                page, "db.orders.insert({ _id: NumberLong(7), h: '<b>x</b>' })", 'WriteResult({ "nInserted" : 1 })'
            )
            await typed(page, "db.orders.findOne()", '"h" : "<b>x</b>"')
            await typed(page, "let k = db.orders.count()", "count")
            await typed(page, "k + 41", "42")
            await typed(page, "use other", "switched to db other")
            await typed(page, "db.runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers", '"user" : "root"')
            await typed(page, "cat('/etc/passwd')", "no files")
            await typed(page, "document", "ReferenceError")
            await page.type("[1, 2].map(function (n) {")
            await page.press("Enter")
            await page.until("document.querySelector('.prompt').innerText.trim() == '...'")
            await page.evaluate("document.getElementById('shell-line').value = ''")
            await page.type("for (;;) {}")
            await page.press("Enter")
            await page.until("!document.querySelector('.shell-line button').disabled")
            await page.evaluate("document.querySelector('.shell-line button').click()")
            await page.reads("^C")
            await page.until("document.querySelector('.shell-line button').disabled")
            await typed(page, "db", "test")
            await page.evaluate("document.getElementById('shell-line').focus()")
            await page.type("db.getSib")
            await page.press("Space", CONTROL)
            await page.until("document.getElementById('shell-line').value.startsWith('db.getSiblingDB')")
            without_complaints(page)

    run(scenario(), 60)


def test_the_policy_forbids_what_the_page_does_not_do(tmp_path: Path) -> None:
    """So the other tests would notice: markup that came in would be refused by the browser, and that is heard."""

    async def scenario() -> None:
        async with console() as served, browser_page(tmp_path) as page:
            await page.open(f"http://{served.host}/#/topology")
            await page.reads("Open cursors")
            without_complaints(page)
            inject = f"document.body.innerHTML = {json.dumps(IMAGE)}"
            assert (
                await page.evaluate(f"(() => {{ try {{ {inject}; }} catch (e) {{ return e.name; }} }})()")
                == "TypeError"
            )
            await page.evaluate(
                "document.head.append(Object.assign(document.createElement('style'), {textContent: 'a'}))"
            )
            assert page.complaints

    run(scenario(), 60)


def test_who_may_not_see_something_is_told_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with console(auth=True) as served, browser_page(tmp_path) as page:
            await page.open(f"http://{served.host}/#/operations")
            await page.until("document.activeElement.id == 'login-user'")
            await page.type("reader")
            await page.press("Tab")
            await page.type(PASSWORD)
            await page.press("Enter")
            await page.reads("Your user may not read the log")
            await page.open(f"http://{served.host}/#/topology")
            await page.reads("Your user may not see what the process does")
            await page.open(f"http://{served.host}/#/data/admin/system.users")
            await page.reads("not authorized on admin to execute command")
            without_complaints(page)

    run(scenario(), 60)


@contextlib.asynccontextmanager
async def with_certificate(served: Console, context: ssl.SSLContext) -> AsyncIterator[str]:
    """Where a browser comes to the console as one that has that certificate would."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.context = context
        from_console, to_console = await served.connect()
        await asyncio.gather(copy(reader, to_console), copy(from_console, writer))

    server = await asyncio.start_server(accept, LOOPBACK, 0)
    async with server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}/"


def test_a_certificate_logs_in_when_a_button_is_pressed(tmp_path: Path) -> None:
    clients = Clients(Authority(tmp_path / "certificates"))

    async def scenario() -> None:
        async with (
            clients.console() as served,
            with_certificate(served, clients.bob) as bob,
            with_certificate(served, clients.ann) as ann,
            browser_page(tmp_path) as page,
        ):
            await page.open(bob)
            await page.until("document.activeElement.textContent == 'Log in as CN=bob,DC=org'")
            await page.press("Enter")
            await page.reads("Authentication failed.")
            assert await page.focused() == "BUTTON Log in as CN=bob,DC=org"
            page.complaints.clear()
            await page.open(ann)
            await page.until(f"document.activeElement.textContent == 'Log in as {ANN}'")
            await page.press("Enter")
            await page.reads(f"{ANN}@$external")
            await page.reads("Open cursors")
            await page.evaluate("document.querySelector('#user button').click()")
            await page.until(f"document.activeElement.textContent == 'Log in as {ANN}'")
            assert "Open cursors" not in await page.text()
            without_complaints(page)

    run(scenario(), 60)


async def tabbed_to(page: Page, what: str) -> None:
    for _ in range(40):
        if await page.focused() == what:
            return
        await page.press("Tab")
    raise AssertionError(f"{what} is not reached; {await page.focused()} is")


def test_everything_is_reached_by_keyboard(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with console(auth=True) as served, browser_page(tmp_path) as page:
            await page.open(f"http://{served.host}/")
            await page.until("document.activeElement.id == 'login-user'")
            await page.type("root")
            await page.press("Tab")
            await page.type("wrong")
            await page.press("Enter")
            await page.reads("Authentication failed.")
            page.complaints.clear()
            assert await page.focused() == "INPUT login-password"
            await page.type(PASSWORD)
            await page.press("Enter")
            await page.reads("Open cursors")
            await page.reads("root@admin")
            assert "mongod" in await page.text()
            await page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
            await tabbed_to(page, "A Operations")
            await page.press("Enter")
            await page.until("document.querySelector('h1').textContent == 'Operations'")
            assert await page.focused() == "H1 Operations"
            assert await page.evaluate("document.querySelector('nav [aria-current]').textContent") == "Operations"
            await page.press("Tab")
            assert await page.focused() == "INPUT waiting"
            await page.press("Tab", SHIFT)
            await page.evaluate("document.querySelector('#user button').focus()")
            await page.press("Enter")
            await page.until("document.activeElement.id == 'login-user'")
            assert "Operations" not in await page.text()
            without_complaints(page)

    run(scenario(), 60)


def test_what_has_the_focus_keeps_it_when_a_view_is_read_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with console() as served, browser_page(tmp_path) as page:
            await filled(served)
            await page.open(f"http://{served.host}/#/topology")
            await page.reads("Requests")
            await page.evaluate("window.before = document.querySelector('.figures')")
            await page.until("!document.contains(window.before)")
            await page.open(f"http://{served.host}/#/operations")
            await page.until("document.querySelector('details') && document.querySelector('.wide')")
            await page.evaluate("document.querySelector('details').open = true")
            await page.evaluate(
                "document.querySelector('.wide').focus(), window.before = document.querySelector('.wide')"
            )
            await page.until("!document.contains(window.before)")
            assert await page.evaluate("document.activeElement.dataset.key") == "now"
            assert await page.evaluate("document.querySelector('details').open")
            without_complaints(page)

    run(scenario(), 60)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_the_page_is_light_or_dark_and_never_wider_than_the_window(tmp_path: Path, scheme: str, width: int) -> None:
    async def scenario() -> None:
        async with console() as served, browser_page(tmp_path) as page:
            await filled(served)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await page.send("Emulation.setEmulatedMedia", features=features)
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            await page.send("Emulation.setDeviceMetricsOverride", **size)
            places = ["topology", "operations", "data", "data/shop", "data/shop/orders", "work", "command"]
            for place in places:
                await page.open(f"http://{served.host}/#/{place}")
                await page.until(f"document.querySelector('.view') && location.hash == '#/{place}'")
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
            colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (max(map(int, re.findall(r"\d+", colour))) < 64) == (scheme == "dark")
            assert len(await page.picture()) > 1000
            without_complaints(page)

    run(scenario(), 60)


def test_a_router_shows_members_and_chunks(tmp_path: Path) -> None:
    with routed_cluster(tmp_path / "cluster") as cluster:
        config = cluster.deployment.members["config-0"]
        router = Member("console", "mongos", ["--configdb", config.address, "--httpPort", "0"])
        cluster.deployment.start(router)
        port = re.search(r'"msg":"Console".*?"port":(\d+)', cluster.deployment.output_of(router).read_text())
        assert port is not None
        orders = cluster.shard("orders", {"n": 1})
        orders.insert_many({"n": number} for number in range(10))
        cluster.split_and_move("orders", {"n": 5})
        run(_look_at_cluster(tmp_path, f"http://127.0.0.1:{port[1]}", config), 90)


async def _look_at_cluster(directory: Path, url: str, config: Member) -> None:
    async with browser_page(directory) as page:
        await page.open(f"{url}/#/topology")
        await page.until(
            "[...document.querySelectorAll('.card .badge')].filter(e => e.innerText == 'primary').length == 3"
        )
        await page.reads(config.address)
        await page.open(f"{url}/#/chunks")
        await page.reads("2 chunks: one 1, two 1.")
        titles: list[Any] = await page.evaluate("[...document.querySelectorAll('svg title')].map(e => e.textContent)")
        assert titles == ["{ n: MinKey } to { n: 5 } on one", "{ n: 5 } to { n: MaxKey } on two"]
        await page.reads("moveChunk.commit")
        without_complaints(page)
