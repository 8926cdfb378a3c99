"""bridge start and bridge send: tasks to another agent over a channel, and their answers back."""

from __future__ import annotations

from argparse import Namespace

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, one_of, seconds, takes
from contextrelay.client.bridge.bridge import DONE_CHANNEL, TASK_CHANNEL, AgentBridge
from contextrelay.client.contextrelay import ContextRelay
from contextrelay.limits import BRIDGE_S_DEFAULT

_CHANNELS = (
    arg("--task-channel", default=TASK_CHANNEL, metavar="CHANNEL", help=f"else {TASK_CHANNEL}"),
    arg("--done-channel", default=DONE_CHANNEL, metavar="CHANNEL", help=f"else {DONE_CHANNEL}"),
    arg(
        "--timeout",
        type=seconds,
        default=float(BRIDGE_S_DEFAULT),
        metavar="SECONDS",
        help=f"how long a task may take, else {BRIDGE_S_DEFAULT}",
    ),
)


@takes(
    *_CHANNELS,
    one_of(
        arg("--exec", metavar="CMD", help="a command: task on stdin, answer on stdout"),
        arg("--tmux", metavar="SESSION", help="an agent in a tmux session, else vibe"),
    ),
    arg("--window", type=int, default=0, metavar="N", help="of tmux, else 0"),
)
def bridge_start(args: Namespace, console: Console) -> None:
    """Work on the tasks that come on a channel, until interrupted."""
    with ContextRelay(console.address) as hub:
        channels = (args.task_channel, args.done_channel)
        if args.exec is not None:
            bridge = AgentBridge(hub, *channels, dispatcher=args.exec, timeout=args.timeout)
        else:
            session = args.tmux or "vibe"
            bridge = AgentBridge.for_tmux(hub, session, args.window, *channels, args.timeout)
        started = f"works on {args.task_channel}, answers on {args.done_channel}; Ctrl-C ends it"
        bridge.start(on_open=lambda: console.note(started))


@takes(
    *_CHANNELS,
    arg("task", nargs="+", metavar="TASK", help="what is to be done"),
    arg("--wait", action="store_true", help="wait for the answer and print it"),
)
def bridge_send(args: Namespace, console: Console) -> None:
    """Give a task to the agent behind a bridge, and print its URL, or the answer."""
    task = " ".join(args.task)
    with ContextRelay(console.address) as hub:
        bridge = AgentBridge(hub, args.task_channel, args.done_channel)
        if not args.wait:
            url = bridge.send(task)
            console.answer({"url": url}, url, url)
            return
        with console.busy("waiting for the answer"):
            answer = bridge.push_and_wait(task, args.timeout)
    console.answer({"answer": answer}, answer.rstrip("\n"))
