"""An agent on the official SDK, as a program: says a word, then what it was sent, in two pieces.

python -m tests.a2a.sdk_server PORT
"""

# The SDK's functions are typed by what protobuf makes at run time.
# pyright: basic
from __future__ import annotations

import sys

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2
from starlette.applications import Starlette


class Echo(AgentExecutor):
    """Says what it was sent."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        assert context.message is not None
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        said = new_text_part(f"you said {context.get_user_input()}")
        await updater.add_artifact([said], artifact_id="a")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def application(url: str) -> Starlette:
    """The SDK's routes around the agent."""
    card = a2a_pb2.AgentCard(
        name="echo",
        description="an agent on the SDK",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=a2a_pb2.AgentCapabilities(streaming=True),
        skills=[a2a_pb2.AgentSkill(id="e", name="echo", description="echo", tags=["echo"])],
    )
    for binding, place in (("JSONRPC", f"{url}/rpc"), ("HTTP+JSON", f"{url}/rest")):
        card.supported_interfaces.add(url=place, protocol_binding=binding, protocol_version="1.0")
    handler = DefaultRequestHandler(
        agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card
    )
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/rpc"),
        *create_rest_routes(handler, path_prefix="/rest"),
    ]
    return Starlette(routes=routes)


if __name__ == "__main__":
    port = int(sys.argv[1])
    app = application(f"http://127.0.0.1:{port}")
    uvicorn.run(app, port=port, log_level="error")
