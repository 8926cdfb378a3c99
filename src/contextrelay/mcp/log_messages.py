"""Log messages to a client: what each tool did, and what failed, at the level that it asks for.

Older clients set a level for their connection (`logging/setLevel`), newer ones with each request.
A client that asks for none is sent none.
"""

from __future__ import annotations

from typing import Any, get_args

import mcp_types as types

from contextrelay.mcp.subscriptions import Asking, connection_of

_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""From the least to the most severe."""
_STATE = "contextrelay.log_level"
_LOGGER = "contextrelay"


async def set_level(asking: Asking, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Send this client what is as severe as a level, from now on."""
    connection_of(asking).state[_STATE] = params.level
    return types.EmptyResult()


async def send(asking: Asking, level: types.LoggingLevel, data: dict[str, Any]) -> None:
    """Send a message to a client that asked for such."""
    wanted = dict(asking.meta or {}).get(types.LOG_LEVEL_META_KEY)
    wanted = wanted or connection_of(asking).state.get(_STATE)
    if wanted in _LEVELS and _LEVELS.index(level) >= _LEVELS.index(wanted):
        params = types.LoggingMessageNotificationParams(level=level, logger=_LOGGER, data=data)
        notification = types.LoggingMessageNotification(params=params)
        await asking.session.send_notification(notification, related_request_id=asking.request_id)
