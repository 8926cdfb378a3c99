"""Pictures of the page for the documents: `python -m tests.web.pictures FOLDER`.

They are of what `relay demo` makes, taken by the browser that the tests use.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from contextrelay import Relay
from tests.server.serving import serving
from tests.web.browser import Tab, chromium


def take(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        store = Path(temporary, "store")
        demo = [sys.executable, "-m", "contextrelay", "--store", str(store), "demo"]
        subprocess.run(demo, check=True, capture_output=True)
        with Relay(store) as relay, serving(store) as served, chromium() as browser:
            thread = relay.threads(1).threads[0]
            for name, path, scheme in (
                ("thread", f"/ui/t/{thread.thread_id}?v=19", "light"),
                ("home", "/ui/", "dark"),
            ):
                tab = Tab(browser, served.url, scheme)
                tab.open(path)
                tab.picture(folder / f"page-{name}.png")
                tab.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
