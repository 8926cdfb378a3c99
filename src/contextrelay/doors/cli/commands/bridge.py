"""bridge start and bridge send: tasks to another agent over a channel, and their answers back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from contextrelay.client.bridge.bridge import DONE_CHANNEL, TASK_CHANNEL, AgentBridge
from contextrelay.client.contextrelay import ContextRelay
from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.parser import seconds
from contextrelay.limits import BRIDGE_S_DEFAULT


def _channel_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--task-channel", default=TASK_CHANNEL, metavar="CHANNEL", help=f"else {TASK_CHANNEL}"
    )
    parser.add_argument(
        "--done-channel", default=DONE_CHANNEL, metavar="CHANNEL", help=f"else {DONE_CHANNEL}"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=float(BRIDGE_S_DEFAULT),
        metavar="SECONDS",
        help=f"how long a task may take, else {BRIDGE_S_DEFAULT}",
    )


def bridge_start_arguments(parser: ArgumentParser) -> None:
    _channel_arguments(parser)
    worker = parser.add_mutually_exclusive_group()
    worker.add_argument("--exec", metavar="CMD", help="a command: task on stdin, answer on stdout")
    worker.add_argument("--tmux", metavar="SESSION", help="an agent in a tmux session, else vibe")
    parser.add_argument("--window", type=int, default=0, metavar="N", help="of tmux, else 0")


def bridge_start(args: Namespace, console: Console) -> None:
    """Work on the tasks that come on a channel, until interrupted."""
    with ContextRelay(console.address) as hub:
        bridge = _bridge(args, hub)
        told = f"works on {args.task_channel}, answers on {args.done_channel}; Ctrl-C ends it"
        bridge.start(on_open=lambda: console.note(told))


def _bridge(args: Namespace, hub: ContextRelay) -> AgentBridge:
    channels = (args.task_channel, args.done_channel)
    if args.exec is not None:
        return AgentBridge(hub, *channels, dispatcher=args.exec, timeout=args.timeout)
    return AgentBridge.for_tmux(hub, args.tmux or "vibe", args.window, *channels, args.timeout)


def bridge_send_arguments(parser: ArgumentParser) -> None:
    _channel_arguments(parser)
    parser.add_argument("task", nargs="+", metavar="TASK", help="what is to be done")
    parser.add_argument("--wait", action="store_true", help="wait for the answer and print it")


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
