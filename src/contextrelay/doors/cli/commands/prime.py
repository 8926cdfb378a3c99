"""prime: what an agent is told when it begins."""

from __future__ import annotations

from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.parser import arg, takes
from contextrelay.doors.cli.project_argument import open_project, project_options, tell_warnings
from contextrelay.errors import Invalid, NotFound, RelayError
from contextrelay.limits import BRIEF_TOKENS_MIN, PRIME_TOKENS_DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


@takes(
    arg(
        "--budget",
        type=int,
        default=PRIME_TOKENS_DEFAULT,
        metavar="TOKENS",
        help=f"the most it may take ({PRIME_TOKENS_DEFAULT})",
    ),
    *project_options(writes=False),
)
def prime(args: Namespace, console: Console) -> None:
    """Print what an agent is told: how to use relay, and the brief of the project it is in.

    A project that cannot be read is told of in one line: an agent must begin either way.
    """
    from contextrelay.doors.project.token_count import counter
    from contextrelay.logic.project.primer import primed

    if args.budget < BRIEF_TOKENS_MIN:
        raise Invalid(f"{args.budget} tokens are too few", f"give it {BRIEF_TOKENS_MIN} or more")
    brief = ""
    try:
        project = open_project(args, console)
        brief = project.brief(max(BRIEF_TOKENS_MIN, args.budget * 2 // 3)).text
        tell_warnings(project, console)
    except NotFound:
        pass
    except RelayError as error:
        brief = f"The project's files need a look: {error.message}; {error.hint}"
    made = primed(brief, args.budget, counter())
    told = {"text": made.text, "tokens": made.tokens, "budget_tokens": args.budget}
    console.answer(told, made.text, made.text)
