"""The files of deploy/ are what the tools that they are for take, and name what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.proxy import Nginx
from tests.parts import ROOT, has_command, needs
from tests.server.serving import serving_apart

DEPLOY = ROOT / "deploy"
OWN_METRIC = re.compile(r"contextrelay_\w+")
SUMS = ("_bucket", "_sum", "_count")


def run(*words: str | Path) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_is_one() -> None:
    """Promise G2."""
    needs("check-jsonschema", find_spec("check_jsonschema") is not None)
    compose = DEPLOY / "compose" / "compose.yaml"

    run(
        *(sys.executable, "-m", "check_jsonschema"),
        *("--builtin-schema", "vendor.compose-spec", compose),
    )

    asked = set(re.findall(r"\$\{(\w+)", compose.read_text()))
    said = re.findall(r"^(\w+)=", (compose.parent / "example.env").read_text(), re.MULTILINE)
    assert asked == set(said)


def test_the_manifests_are_valid() -> None:
    """Promise G2."""
    needs("kubernetes-validate", find_spec("kubernetes_validate") is not None)
    command = Path(sys.executable).with_name("kubernetes-validate")

    run(command, "--strict", DEPLOY / "kubernetes" / "relay.yaml")


def test_the_configuration_of_nginx_is_one(tmp_path: Path) -> None:
    """Promise G2."""
    assert "test is successful" in Nginx(tmp_path).check()


def test_the_unit_is_one(tmp_path: Path) -> None:
    """Promise G2."""
    needs("systemd-analyze", has_command("systemd-analyze"))
    text = (DEPLOY / "systemd" / "relay.service").read_text()
    command = shutil.which("true") or "/bin/true"
    unit = tmp_path / "relay.service"
    unit.write_text(text.replace("/opt/relay/bin/relay", command))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60
    )

    assert "relay.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def expressions() -> Iterator[tuple[str, str]]:
    """Where each expression stands, and what it says."""
    alerts: Any = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    board: Any = json.loads((DEPLOY / "monitoring" / "grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_alerts_and_dashboard_ask_for_figures_that_there_are(tmp_path: Path) -> None:
    """Promise G2."""
    with serving_apart(tmp_path) as served:
        for path in ("/v1/artifacts", "/metrics"):
            with urllib.request.urlopen(served.url + path) as answer:
                text = answer.read().decode()

    there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    labels = set(re.findall(r"(\w+)=\"", text)) | {"instance", "job"}
    for where, expression in expressions():
        for name in OWN_METRIC.findall(expression):
            plain = next((name.removesuffix(end) for end in SUMS if name.endswith(end)), name)
            assert plain in there, f"{where} asks for {name}"
        by = re.findall(r"by \(([^)]*)\)", expression)
        asked = {label.strip() for each in by for label in each.split(",")}
        assert asked <= labels, f"{where} asks for the labels {asked - labels}"


def test_alerts_and_dashboard_are_written_as_prometheus_reads_them() -> None:
    """Promise G2."""
    needs("promql-parser", find_spec("promql_parser") is not None)
    parser: Any = import_module("promql_parser")

    for _, expression in expressions():
        parser.parse(expression)


def test_every_alert_is_in_the_runbook() -> None:
    """Promise G2."""
    runbook = (ROOT / "docs" / "operate.md").read_text()
    alerts: Any = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())

    for rule in alerts["groups"][0]["rules"]:
        assert f"`{rule['alert']}`" in runbook
