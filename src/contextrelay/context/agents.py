"""Agents: wrappers of any model client that has `async generate(prompt)`, each with a session."""

from __future__ import annotations

import json
from typing import Any, Protocol

from contextrelay.context.blocks import ContextType
from contextrelay.context.sessions import ContextManager


class LlmClient(Protocol):
    """The interface of a model client."""

    async def generate(self, prompt: str, /) -> str: ...


class NetworkApi(Protocol):
    """The interface with which a technical agent queries a customer's line."""

    async def get_customer_network_data(self, customer_id: str, /) -> Any: ...
    async def run_diagnostics(self, customer_id: str, /) -> Any: ...


class ContextAwareAgent:
    """An agent whose prompt is its session; subclasses define the role."""

    def __init__(
        self,
        llm_client: LlmClient,
        agent_role: str,
        context_manager: ContextManager | None = None,
    ) -> None:
        self.llm = llm_client
        self.role = agent_role
        self.context_manager = context_manager or ContextManager()
        self.session_id: str | None = None

    async def initialize_session(self) -> str:
        """Start a session with the prompt of the role."""
        self.session_id = self.context_manager.create_session(self.role)
        self.context_manager.add_context(
            session_id=self.session_id,
            content=await self._load_role_prompt(),
            context_type=ContextType.SYSTEM,
            relevance_score=1.0,
            metadata={"type": "system_prompt", "role": self.role},
        )
        return self.session_id

    async def _load_role_prompt(self) -> str:
        raise NotImplementedError

    async def _add(
        self, content: str, kind: ContextType, relevance: float, metadata: dict[str, Any] | None
    ) -> str:
        session_id = self.session_id or await self.initialize_session()
        given = content, kind, relevance, dict(metadata or {})
        return self.context_manager.add_context(session_id, *given)

    async def add_user_context(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Add a message of the user."""
        return await self._add(content, ContextType.USER, 0.9, metadata)

    async def add_memory_context(
        self, content: str, relevance_score: float, metadata: dict[str, Any] | None = None
    ) -> str:
        """Add earlier knowledge."""
        return await self._add(content, ContextType.MEMORY, relevance_score, metadata)

    async def add_tool_context(
        self, content: str, tool_name: str, metadata: dict[str, Any] | None = None
    ) -> str:
        """Add the output of a tool."""
        about = {**(metadata or {}), "tool_name": tool_name}
        return await self._add(content, ContextType.TOOL, 0.8, about)

    async def process_with_llm(self, prompt: str | None = None) -> str:
        """Call the model with the current session and a prompt that is not added to it."""
        session_id = self.session_id or await self.initialize_session()
        text = self.context_manager.get_formatted_context(session_id)
        if prompt:
            text += f"\n\n[PROMPT]\n{prompt}"
        response = await self.llm.generate(text)
        await self._add(response, ContextType.AGENT, 0.9, {"type": "agent_response"})
        return response

    def export_context(self) -> dict[str, Any]:
        """Return the session for another agent.

        Raises:
            ValueError: there is no session yet.
        """
        if self.session_id is None:
            raise ValueError("No active session")
        return self.context_manager.export_session(self.session_id)

    def import_context(self, context_data: dict[str, Any]) -> None:
        """Continue another agent's session."""
        self.session_id = self.context_manager.import_session(context_data)


class ContextAwareIntentAgent(ContextAwareAgent):
    """Detects a customer's intent."""

    def __init__(
        self,
        llm_client: LlmClient,
        agent_role: str = "intent_agent",
        context_manager: ContextManager | None = None,
    ) -> None:
        super().__init__(llm_client, agent_role, context_manager)

    async def _load_role_prompt(self) -> str:
        return (
            "You find out what customers of a telecom company want. Name the main intent, others"
            " behind it, how sure you are, and what has to be known to help."
        )

    async def analyze_intent(self, query: str) -> dict[str, Any]:
        """Return the intent that the model detects; `unknown` if its answer is not JSON."""
        await self.add_user_context(query, {"type": "customer_query"})
        answer = await self.process_with_llm(
            "Answer with one JSON object: primary_intent (a string), secondary_intents (a list),"
            " required_information (a list), confidence (from 0 to 1)."
        )
        unknown: dict[str, Any] = {"primary_intent": "unknown", "secondary_intents": []}
        return _json_or(answer, {**unknown, "required_information": [], "confidence": 0.5})


class ContextAwareTechnicalAgent(ContextAwareAgent):
    """Diagnoses a customer's line."""

    def __init__(
        self,
        llm_client: LlmClient,
        network_api: NetworkApi,
        context_manager: ContextManager | None = None,
    ) -> None:
        super().__init__(llm_client, "technical_agent", context_manager)
        self.network_api = network_api

    async def _load_role_prompt(self) -> str:
        return (
            "You help customers of a telecom company with technical trouble. Read the data of the"
            " line and of the diagnostics, find the cause, and give steps that repair it."
        )

    async def diagnose_issue(self, issue_description: str, customer_id: str) -> dict[str, Any]:
        """Return the diagnosis of the model; `unknown` if its answer is not JSON."""
        about = {"customer_id": customer_id}
        await self.add_user_context(issue_description, about)
        network = await self.network_api.get_customer_network_data(customer_id)
        await self.add_memory_context(json.dumps(network), 0.85, {"type": "network_data", **about})
        diagnostics = await self.network_api.run_diagnostics(customer_id)
        await self.add_tool_context(json.dumps(diagnostics), "network_diagnostics", about)
        answer = await self.process_with_llm(
            "Answer with one JSON object: root_cause (a string), recommended_solution (a list of"
            " steps), alternative_solutions (a list), confidence (from 0 to 1)."
        )
        unknown: dict[str, Any] = {"root_cause": "unknown", "recommended_solution": []}
        return _json_or(answer, {**unknown, "alternative_solutions": [], "confidence": 0.5})


def _json_or(text: str, fallback: dict[str, Any]) -> dict[str, Any]:
    try:
        answer: Any = json.loads(text)
    except ValueError:
        return fallback
    return answer if isinstance(answer, dict) else fallback  # pyright: ignore[reportUnknownVariableType]
