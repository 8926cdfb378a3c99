"""A real HTTP server that speaks S3 (moto's), on a free loopback port."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from importlib.util import find_spec

from tests.parts import needs
from tests.store.waiting import free_port, until

BUCKET = "relay"
CREDENTIALS = "access_key_id=test&secret_access_key=test&region=us-east-1"


class S3Server:
    """One server with one bucket, which keeps all in its memory."""

    def __init__(self) -> None:
        needs("moto", find_spec("moto") is not None and find_spec("obstore") is not None)
        self.port = free_port()
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "moto.server", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._makes_bucket, "moto's server")

    def url(self, prefix: str, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint=http://127.0.0.1:{self.port}&{CREDENTIALS}"

    def end(self) -> None:
        self._server.terminate()
        self._server.wait()

    def _makes_bucket(self) -> bool:
        assert self._server.poll() is None, "moto's server ended"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except OSError:
            return False
        return True
