"""The OpenAI provider, and every server that speaks its language: vLLM, llama.cpp, OpenRouter, ...

OpenAI itself is asked by its Responses API: there a model that reasons keeps its reasoning between
the rounds of a tool loop, which chat completions lose. All others are asked by chat completions,
the language that they share. `openai-chat` and `openai-responses` choose one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextrelay.runs.providers.openai.chat import OpenAIChat
from contextrelay.runs.providers.openai.client import OpenAIProvider, openai_account
from contextrelay.runs.providers.openai.responses import OpenAIResponses


def open_openai(model: str, environ: Mapping[str, str]) -> OpenAIProvider:
    """The provider for the host that OPENAI_BASE_URL names, else OpenAI itself.

    Raises:
        Invalid: the URL is none, or no model is named for a host that is not OpenAI.
    """
    kind = OpenAIResponses if openai_account(environ).is_own else OpenAIChat
    return kind(model, environ)
