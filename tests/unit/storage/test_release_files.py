"""Files that release 0.1 wrote are opened by this one, with everything that is in them."""

from __future__ import annotations

import shutil
from pathlib import Path

from actors.mailboxes.host import MailboxHost
from actors.registry.registry import Registry
from actors.server_settings import ServerSettings
from actors.storage.checksum_records import checksums_of
from tests.unit.mailboxes.delivery_samples import batch_of
from tests.unit.registry.test_opening import GIVEN, Alone

FILES = Path(__file__).parent / "files"


def test_a_data_folder_of_release_0_1(tmp_path: Path) -> None:
    for store in ("registry", "mailboxes"):
        shutil.copy(FILES / f"{store}-0.1.sqlite", tmp_path / f"{store}.sqlite")
    for attempt in range(2):  # the second finds what the first has made of them
        registry = Registry(Alone(), str(tmp_path), GIVEN)
        assert registry.get("s1").expression == "x = 1"
        assert registry.get("i2").expression == "z between 2 and 4"
        assert [rule.id for rule in registry.rules()] == ["r1"]
        settings = ServerSettings().changed({"levels": ["low", "high"], "mailbox": {"delivery_limit": 1}})
        host = MailboxHost(settings, str(tmp_path), Alone().owner())
        waiting = host.poll("one", 10), host.poll("two", 10)
        assert [each.subscription_id.tolist() for each in waiting] == [["c"], ["d", 7]]
        assert [(each.subscription_id, each.reason) for each in host.dead_letters("one")] == [("a", "no")]  # type: ignore[attr-defined]
        report = host.deliver(batch_of((0, "e", 1, 0), contents=[{"x": 3}], keys=["k2"]), {1: "one"})
        assert (report.duplicates, report.delivered) == (1, 0)  # what was published is known as before
        assert checksums_of(tmp_path / "registry.sqlite").exists(), attempt
        for each in waiting:
            host.release(each.subscriber, each)  # type: ignore[attr-defined]
        host.close_mailboxes()
        registry.close()
