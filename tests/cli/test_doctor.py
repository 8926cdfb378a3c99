"""The doctor: what is in the way, and the next step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode

from contextrelay import Full, Relay
from contextrelay.store import clocks
from contextrelay.store.ledger import LOCK_LOG, ONLY, PLACE_KIND, Row, Write
from contextrelay.store.ledger.sqlite import SqliteLedger
from contextrelay.store.postgres.ledger import PostgresLedger
from contextrelay.store.redis.client import connect
from tests.cli.shell import Shell
from tests.crash.small_disk import fill_with_junk, small_disk
from tests.store.engines import Servers, new_prefix
from tests.store.postgres.server import STRANGER, PostgresServer
from tests.store.waiting import free_port

# A new database takes 38 MB of it.
POSTGRES_DISK_BYTES = 60 * 1024 * 1024
PUSHES_MAX = 1_000


def findings(shell: Shell, what: str) -> list[dict[str, Any]]:
    return [each for each in shell.json("doctor", real=True) if each["what"] == what]


def test_another_contextrelay_on_the_path_of_python_is_named(shell: Shell) -> None:
    """Promise U2."""
    other = shell.home / "old"
    (other / "contextrelay").mkdir(parents=True)
    (other / "contextrelay" / "__init__.py").write_text("")
    record = other / "contextrelay-0.2.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: contextrelay\nVersion: 0.2.0\n")
    # Behind our own, or it would run in our place.
    ours = Path(__file__).parents[2] / "src"
    shell.env["PYTHONPATH"] = os.pathsep.join([str(ours), str(other)])

    hints = [each for each in findings(shell, "package") if each["state"] == "hint"]

    assert "(0.2.0)" in hints[-1]["told"]
    assert str(other) in hints[-1]["next_step"]


def test_a_search_index_that_is_behind_is_reported(shell: Shell) -> None:
    """Promises L3, U2."""
    shell.out("push", "-", stdin=b"the first of some notes")
    before = findings(shell, "search")
    shell.out("search", "notes")
    up = findings(shell, "search")
    for index in range(3):
        shell.out("push", "-", stdin=b"more notes, number %d" % index)

    behind = findings(shell, "search")

    assert before == []
    assert up[0]["state"] == "ok"
    assert behind[0]["state"] == "hint"
    assert "relay gc" in behind[0]["next_step"]


@pytest.mark.parametrize(
    ("store", "step"),
    [
        ("redis://127.0.0.1:{port}", "listens at its address"),
        ("postgresql://127.0.0.1:{port}/relay", "listens at its address"),
    ],
)
def test_an_engine_that_cannot_be_reached_is_one_failure_with_the_next_step(
    shell: Shell, store: str, step: str
) -> None:
    """Promise U2."""
    address = store.format(port=free_port())

    done = shell.run("--json", "--store", address, "doctor")

    failed = [each for each in decode(done.stdout) if each["state"] == "failure"]
    assert done.returncode == 2
    assert [each["what"] for each in failed] == ["store"]
    assert step in failed[0]["next_step"]


# Engines that several machines share


def failures(shell: Shell, store: str) -> list[dict[str, Any]]:
    done = shell.run("--json", "--store", store, "doctor")
    found = [each for each in decode(done.stdout) if each["state"] == "failure"]
    assert done.returncode == (2 if found else 0)
    return found


def test_a_shared_engine_that_is_all_right_has_no_failure(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    for url in (servers.postgres(), servers.single()):
        assert failures(shell, f"{url}?prefix={new_prefix()}") == []


def test_a_password_that_is_refused_is_one_failure(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    server = servers.start()
    client = connect(f"redis://127.0.0.1:{server.port}")
    client.ask("CONFIG", "SET", "requirepass", "right")
    client.close()
    wrong = (
        f"redis://:wrong@127.0.0.1:{server.port}",
        servers.postgres().replace("relay@", f"{STRANGER}:wrong@"),
    )

    for url in wrong:
        (failed,) = failures(shell, url)
        assert failed["what"] == "store"
        assert "password" in failed["next_step"]
        assert "wrong" not in failed["told"]


def test_missing_rights_are_one_failure_with_the_grants(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    owner = PostgresLedger(f"{servers.postgres()}?prefix={new_prefix()}")
    user = new_prefix()
    owner.client.ask(f"CREATE ROLE {user} LOGIN")
    owner.close()

    (failed,) = failures(shell, servers.postgres().replace("relay@", f"{user}@"))

    assert "GRANT" in failed["next_step"]


def test_a_store_of_a_newer_version_is_one_failure(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    url = f"{servers.postgres()}?prefix={new_prefix()}"
    newer = PostgresLedger(url)
    newer.client.ask("INSERT INTO {store}.step VALUES (99, 0)")
    newer.close()

    (failed,) = failures(shell, url)

    assert "99" in failed["told"]
    assert "upgrade" in failed["next_step"]


def test_a_bucket_that_is_gone_is_a_failure(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    url = servers.s3().url(new_prefix())
    shell.env["AWS_ACCESS_KEY_ID"] = shell.env["AWS_SECRET_ACCESS_KEY"] = "test"
    with Relay(shell.home / "store", blobs=url):
        assert failures(shell, str(shell.home / "store")) == []
    ledger = SqliteLedger(shell.home / "store" / "relay.db")
    place = (ledger.get(LOCK_LOG, PLACE_KIND, ONLY) or b"").replace(b"//relay", b"//gone-since")
    ledger.commit(Write(LOCK_LOG, rows=(Row(PLACE_KIND, ONLY, place),)))
    ledger.close()

    (failed,) = failures(shell, str(shell.home / "store"))

    assert (failed["what"], failed["next_step"]) == ("bodies", "create it first")


def test_an_engine_that_forgets_or_has_another_time_is_a_failure(
    shell: Shell, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promises U2, G2."""
    server = servers.start(maxmemory="100mb", **{"maxmemory-policy": "allkeys-lru"})
    monkeypatch.setattr(clocks, "CLOCKS_DIFFER_MS_MAX", -1)

    found = failures(shell, f"redis://127.0.0.1:{server.port}")

    assert [each["what"] for each in found] == ["integrity", "integrity"]
    assert "noeviction" in found[0]["next_step"]
    assert "NTP" in found[1]["next_step"]
    client = connect(servers.sentinel())
    client.ask("CONFIG", "SET", "maxmemory", "100mb")
    client.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    try:
        (forgets, _) = failures(shell, servers.sentinel())
    finally:
        client.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        client.close()
    assert "volatile-lru" in forgets["told"]
    (late,) = failures(shell, f"{servers.postgres()}?prefix={new_prefix()}")
    assert "clock" in late["told"]


def test_an_engine_that_would_forget_with_a_limit_is_a_hint(shell: Shell, servers: Servers) -> None:
    server = servers.start(**{"maxmemory-policy": "allkeys-lru"})

    done = shell.run("--json", "--store", f"redis://127.0.0.1:{server.port}", "doctor")

    (hint,) = (each for each in decode(done.stdout) if each["what"] == "settings")
    assert (done.returncode, hint["state"]) == (0, "hint")
    assert "allkeys-lru" in hint["told"]
    assert "noeviction" in hint["next_step"]


def test_a_replicated_store_without_a_replica_is_a_failure(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    (failed,) = failures(shell, f"{servers.single()}?durability=replicated")

    assert "replicas" in failed["next_step"]


def test_a_full_disk_under_postgresql_is_a_failure_and_reads_and_removals_go_on(
    shell: Shell,
) -> None:
    """Promises U2, G2."""
    kept: dict[str, bytes] = {}
    with (
        tempfile.TemporaryDirectory(prefix="relay-full-") as folder,
        small_disk(Path(folder) / "disk", POSTGRES_DISK_BYTES) as disk,
    ):
        for each in (Path(folder), disk):
            each.chmod(0o777)  # For the user that PostgreSQL runs as.
        server = PostgresServer(within=str(disk))
        server.start()
        try:
            with Relay(server.url) as relay:
                gone = relay.push("to be removed").ref
                fill_with_junk(disk)
                with pytest.raises(Full) as full:
                    push_into(kept, relay)
                found = failures(shell, server.url)
                relay.remove(gone)

                assert "free some" in full.value.hint
                assert "bodies" in {each["what"] for each in found}
                assert all("is full" in each["told"] for each in found)
                assert {ref: relay.pull(ref) for ref in kept} == kept
                assert relay.verify().problems == []
                (disk / "junk").unlink()
                assert failures(shell, server.url) == []
        finally:
            server.end()


def push_into(kept: dict[str, bytes], relay: Relay) -> None:
    for _ in range(PUSHES_MAX):
        body = os.urandom(20_000)
        kept[relay.push(body).ref] = body


def test_missing_rights_on_redis_are_one_failure(shell: Shell, servers: Servers) -> None:
    """Promises U2, G2."""
    server = servers.start()
    client = connect(f"redis://127.0.0.1:{server.port}")
    client.ask("ACL", "SETUSER", "reader", "on", ">pass", "~*", "&*", "+@read", "+info", "+eval")
    client.close()

    (failed, *_) = failures(shell, f"redis://reader:pass@127.0.0.1:{server.port}")

    assert "access list" in failed["next_step"]
    assert "pass" not in failed["told"]


def test_azure_that_refuses_us_or_has_no_such_container_is_a_failure(
    shell: Shell, servers: Servers
) -> None:
    """Promises U2, G2."""
    url = servers.azure().url(new_prefix())
    wrong_key = url.replace("account_key=", "account_key=AAAA")

    for blobs, words in ((wrong_key, "denied"), (url.replace("//relay/", "//none/"), "bucket")):
        shell.env["RELAY_BLOBS"] = blobs
        (failed,) = failures(shell, str(shell.home / "store"))
        assert words in failed["told"]
        assert failed["next_step"]
        assert "AAAA" not in str(failed)
