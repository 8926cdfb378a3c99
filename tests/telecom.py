"""What the article leaves undefined: a model that follows a script, and a company's network."""

from __future__ import annotations

from typing import Any


class Scripted:
    """A model with a script of answers, which remembers what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    async def generate(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answers.pop(0)


class Network:
    async def get_customer_network_data(self, customer_id: str) -> dict[str, Any]:
        return {"customer": customer_id, "line": "fibre"}

    async def run_diagnostics(self, customer_id: str) -> dict[str, Any]:
        return {"packet_loss": 0.2}
