"""Agent cards: a public card, and an extended card for callers with a key."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from contextrelay.a2a.parts import INPUT_TYPES
from contextrelay.a2a.schema import GRPC, HTTP_JSON, JSONRPC, REFS_EXTENSION, VERSION
from contextrelay.a2a.work import Agent
from contextrelay.build import build

ROOT = "/a2a/"
Document = dict[str, Any]


class AgentPlace(Struct, frozen=True):
    """The address at which a server offers its agents, and the authentication that they require."""

    origin: str
    needs_token: bool
    grpc_address: str = ""


def card(name: str, agent: Agent, place: AgentPlace) -> Document:
    """Return the public card of an agent."""
    root = f"{place.origin}{ROOT}{name}"
    interfaces = [_interface(root, JSONRPC), _interface(root, HTTP_JSON)]
    if place.grpc_address:
        interfaces.append(_interface(place.grpc_address, GRPC, name))
    skill = {
        "id": name,
        "name": name,
        "description": agent.description,
        "tags": ["context-relay"],
    }
    shown: Document = {
        "name": name,
        "description": agent.description,
        "version": build().version,
        "provider": {"organization": "Context Relay", "url": place.origin},
        "supportedInterfaces": interfaces,
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "extendedAgentCard": True,
            "extensions": [
                {
                    "uri": REFS_EXTENSION,
                    "description": "Long parts are sent as refs: a url part with sha256, size,"
                    " tokens and preview of its body in its metadata.",
                }
            ],
        },
        "defaultInputModes": list(INPUT_TYPES),
        "defaultOutputModes": ["text/plain", "application/json", "application/octet-stream"],
        "skills": [skill],
    }
    if place.needs_token:
        shown["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        shown["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return shown


def extended_card(name: str, agents: dict[str, Agent], place: AgentPlace) -> Document:
    """Return the extended card for callers with a key. It lists every agent of the server as a
    skill.
    """
    shown = card(name, agents[name], place)
    shown["skills"] = [
        {"id": each, "name": each, "description": agent.description, "tags": [f"a2a/{each}"]}
        for each, agent in agents.items()
    ]
    return shown


def _interface(url: str, binding: str, tenant: str = "") -> Document:
    fields = {"url": url, "protocolBinding": binding, "protocolVersion": VERSION}
    return {**fields, **({"tenant": tenant} if tenant else {})}
