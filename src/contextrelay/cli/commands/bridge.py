"""bridge start and send: run an agent on the tasks of a channel, and send tasks to it."""

from __future__ import annotations

from argparse import Namespace

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, one_of, seconds
from contextrelay.client.bridge.bridge import DONE_CHANNEL, TASK_CHANNEL, AgentBridge
from contextrelay.client.contextrelay import ContextRelay
from contextrelay.limits import BRIDGE_S_DEFAULT

_CHANNELS = (
    arg("--task-channel", default=TASK_CHANNEL, metavar="CHANNEL", help=f"default: {TASK_CHANNEL}"),
    arg("--done-channel", default=DONE_CHANNEL, metavar="CHANNEL", help=f"default: {DONE_CHANNEL}"),
    arg(
        "--timeout",
        type=seconds,
        default=float(BRIDGE_S_DEFAULT),
        metavar="SECONDS",
        help=f"time limit of a task in seconds (default: {BRIDGE_S_DEFAULT})",
    ),
)


@arguments(
    *_CHANNELS,
    one_of(
        arg(
            "--exec",
            metavar="CMD",
            help="run CMD for each task; CMD reads the task on stdin and prints the answer",
        ),
        arg(
            "--tmux",
            metavar="SESSION",
            help="send the tasks to the agent in this tmux session (default: vibe)",
        ),
    ),
    arg(
        "--window",
        type=int,
        default=0,
        metavar="N",
        help="number of the window in the tmux session (default: 0)",
    ),
)
def bridge_start(args: Namespace, console: Console) -> None:
    """Run an agent on each task sent to a channel, until interrupted."""
    with ContextRelay(console.address) as hub:
        channels = (args.task_channel, args.done_channel)
        if args.exec is not None:
            bridge = AgentBridge(hub, *channels, dispatcher=args.exec, timeout=args.timeout)
        else:
            session = args.tmux or "vibe"
            bridge = AgentBridge.for_tmux(hub, session, args.window, *channels, args.timeout)
        started = (
            f"listening to {args.task_channel}, answering on {args.done_channel}; press Ctrl-C to "
            "stop"
        )
        bridge.start(on_open=lambda: console.note(started))


@arguments(
    *_CHANNELS,
    arg("task", nargs="+", metavar="TASK", help="text of the task"),
    arg("--wait", action="store_true", help="wait for the answer and print it"),
)
def bridge_send(args: Namespace, console: Console) -> None:
    """Send a task to the agent behind a bridge. Print the URL of the task or, with --wait, the
    answer.
    """
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
