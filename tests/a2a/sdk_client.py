"""The official SDK's client, as a program: asks an agent over a binding, prints what came as JSON.

python -m tests.a2a.sdk_client BINDING URL TEXT
"""

# The SDK's functions are typed by what protobuf makes at run time.
# pyright: basic
from __future__ import annotations

import asyncio
import json
import sys

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict


async def ask(binding: str, url: str, text: str) -> list[object]:
    """A message, streamed; then the task as it stands, and the list of all."""
    import grpc

    config = ClientConfig(
        streaming=True,
        httpx_client=httpx.AsyncClient(timeout=60),
        supported_protocol_bindings=[binding],
        use_client_preference=True,
        grpc_channel_factory=grpc.aio.insecure_channel,
    )
    client = await create_client(url, config)
    message = new_text_message(text, role=a2a_pb2.ROLE_USER)
    came = [
        MessageToDict(each)
        async for each in client.send_message(a2a_pb2.SendMessageRequest(message=message))
    ]
    task = await client.get_task(a2a_pb2.GetTaskRequest(id=came[0]["task"]["id"]))
    every = await client.list_tasks(a2a_pb2.ListTasksRequest())
    await client.close()
    return [came, MessageToDict(task), MessageToDict(every)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(*sys.argv[1:]))))
