"""Limits: a name for every bound, with its unit last.

Rule: exceeding a limit is an error that names it, or a cut that is counted; never a silent cut.
"""

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400

# Bodies
BODY_BYTES_MAX = 50 * MIB
# Bodies up to this size are ledger rows, larger ones blobs: measured in docs/decisions/0004.
ROW_BODY_BYTES_MAX = 32 * KIB
CHUNK_BYTES = 256 * KIB
# Blobs that one push, or concurrent pushes, write and sync at the same time.
KEEPERS_MAX = 16

# Descriptions of bodies
NAME_CHARS_MAX = 255
MEDIA_TYPE_CHARS_MAX = 127
CHANNEL_CHARS_MAX = 512
LABEL_CHARS_MAX = 128
METADATA_BYTES_MAX = 64 * KIB
JSON_DEPTH_MAX = 64
SOURCE_REFS_MAX = 100
# The total of a body that is longer than BODY_BYTES_MAX.
PARTS_MAX = 1_000
PREVIEW_BYTES_MAX = 2 * KIB
# How much of the head is made safe for a preview, before that is cut: enough to detect a phrase
# across the cut, and not more, because this is most of the cost of a small push.
PREVIEW_HEAD_BYTES_MAX = 4 * KIB
# How much of the head is kept to detect the type.
HEAD_BYTES_MAX = 16 * KIB

# Tokens. A text is counted in pieces of about this many characters.
TOKEN_PIECE_CHARS = 256 * KIB

# Outlines. Of a larger body only the first part is outlined, and the outline notes it.
OUTLINE_BYTES_MAX = 16 * MIB
OUTLINE_TOKENS_DEFAULT = 500
OUTLINE_TOKENS_MIN = 20
# Lines at each end, and errors, that a digest selects from.
DIGEST_LINES_MAX = 2_000
OUTPUT_SEARCHED_BYTES_MAX = 64 * MIB
OUTPUT_MEMORY_BYTES = MIB
OUTPUT_TOKENS_DEFAULT = 1_000
OUTPUT_TOKENS_MIN = 60
OUTPUT_TOKENS_MAX = 1_000_000
# How many entries are examined; more are only counted.
OUTLINE_PIECES_MAX = 4_000
# A longer line is examined up to this length.
OUTLINE_LINE_CHARS_MAX = 2_000
# More lines, or tags of a page, are not examined, and the outline notes it.
OUTLINE_LINES_MAX = 500_000
OUTLINE_TAGS_MAX = 200_000

# Inspection of bodies (bounded/bodies.py): inline up to a size, else in a child process, for this
# much CPU time; then a part of the body, for less; then by lines. A pack has a total limit.
LOOK_INLINE_BYTES_MAX = 4 * KIB
LOOK_CPU_S_MAX = 0.9
LOOK_PART_CPU_S_MAX = 0.4
INDEX_CPU_S_MAX = 0.9
INDEX_PART_CPU_S_MAX = 0.3
LOOKS_S_MAX = 20
PARSER_ROOM_BYTES_MAX = 224 * MIB
PARSER_REAL_S_MAX = 10.0

# Seals (docs/security.md). A chunk's number has 32 bits, and a key of AES-GCM may be used as often.
SEAL_CHUNK_BYTES = 64 * KIB
SEAL_CHUNKS_MAX = 2**32

# State
STATE_BYTES_MAX = 16 * MIB
PATCH_OPERATIONS_MAX = 1_000
POINTER_CHARS_MAX = 4_096
HEADER_BYTES_MAX = 2 * KIB
HEADER_ARTIFACTS = 10
HEADER_ACTIONS = 5
# Prompt bundles: the limits of what a model is sent about a thread, whatever its size.
BUNDLE_PREVIEWS_MAX = 10
BUNDLE_TURN_BYTES_MAX = 2 * KIB
BUNDLE_SYSTEM_BYTES_MAX = 16 * KIB
BUNDLE_USER_BYTES_MAX = 64 * KIB
# Pipelines: the file, its graph, and the limits of a run.
PIPELINE_BYTES_MAX = 256 * KIB
PIPELINE_PARALLEL_MAX = 256
FOREACH_ITEMS_MAX = 10_000
STEP_KEY_CHARS_MAX = 700
# How often a run checks whether it was cancelled, or a step approved.
RUN_LOOK_S = 0.3
PIPELINE_PARALLEL_DEFAULT = 4
STEP_ERROR_BYTES_KEPT = 2_000
STEP_REASON_CHARS_MAX = 2_000
# A result that is parsed: for a schema, a condition, a list to fan out over.
STEP_JSON_BYTES_MAX = 8 * MIB
# Runs: a model's rounds with tools, its output, and its changes in one run.
RUN_ROUNDS_DEFAULT = 8
RUN_ROUNDS_MAX = 100
RUN_OUTPUT_TOKENS_DEFAULT = 8_192
RUN_ANSWER_BYTES_MAX = 8 * MIB
# What compaction keeps of lists that grow without limit.
ACTIONS_KEPT = 50
ARTIFACTS_KEPT = 200

# Time
TTL_S_DEFAULT = DAY_S
TTL_S_MAX = 365 * DAY_S
TOMBSTONE_S = 30 * DAY_S
# A sweep treats a push that has not finished after this long as dead. A wrong guess costs that push
# a retry, never its content (core/artifacts/bodies.py).
UNFINISHED_PUSH_S = 3_600
# How long an idempotency key is known after its first use.
KEY_KEPT_S = DAY_S
KEY_CHARS_MAX = 128

SWEEP_EVERY_S = 60

KEY_RATE_MAX = 1_000_000
# How long readers assume that no restore has locked the store; it waits as long before it writes.
LOCK_TRUSTED_S = 0.25

# Signals
SIGNAL_KEPT_S_DEFAULT = DAY_S
SIGNALS_KEPT_DEFAULT = 10_000
SIGNALS_KEPT_MAX = 1_000_000
MESSAGE_BYTES_MAX = 64 * KIB
# How long a client waits for a signal by default.
WAIT_S_DEFAULT = 30

# Counts
PUSH_MANY_ITEMS_MAX = 10_000
LIST_LOOKED_AT_MAX = 10_000
"""Artifacts that one page of a filtered listing examines."""
LIST_ITEMS_MAX = 1_000
FIND_ITEMS_MAX = 10
QUICK_SWEEP_ITEMS = 200
PAGE_ROWS_MAX = 1_000
RETRIES_MAX = 100
PROBLEMS_MAX = 100

ARCHIVE_BYTES_MAX = 1024 * MIB
# The events in an archive: they are in memory at once, because they are committed at once.
ARCHIVE_HISTORY_BYTES_MAX = 64 * MIB
EVENT_BYTES_MAX = 64 * KIB

# The ledger
LOG_CHARS_MAX = 600
BUSY_MS_MAX = 30_000
RESERVE_BYTES = 4 * MIB

# Numbers: the integers that every JSON parser represents exactly, and every engine can store.
NUMBER_MAX = 2**53 - 1

# HTTP
QUERY_FIELDS_MAX = 50
HEADER_BYTES_IN_MAX = 64 * KIB
HEADERS_IN_MAX = 200
# How much is read of a refused body, so that its sender receives the refusal: in total, of a body
# of unknown length, for how long, the longest pause, and on how many connections of a process at a
# time.
LINGER_BYTES_MAX = 1024 * MIB
LINGER_ENDLESS_BYTES_MAX = 16 * MIB
# A body up to this size is collected in memory, a larger one in a file.
UPLOAD_MEMORY_BYTES = 256 * KIB
JSON_BODY_BYTES_MAX = 32 * MIB
# Bodies held in memory until they are complete: per process, and per caller. A caller is a key, or
# an address if no key is required.
HELD_BODIES_BYTES_MAX = 1024 * MIB
HELD_BY_ONE_BYTES_MAX = 256 * MIB
# Incoming bodies, and their space in the temporary folder: per process, and per caller.
UPLOADS_MAX = 2_048
UPLOADS_BY_ONE_MAX = 512
UPLOADS_BYTES_MAX = 8 * 1024 * MIB
UPLOADS_BY_ONE_BYTES_MAX = 2 * 1024 * MIB + 64 * MIB
# How long a long-poll may wait, and how long a subscriber may take to read a frame.
WAIT_S_MAX = 60
SLOW_READER_S = 30
KEEPALIVE_S = 30
# Waiting clients: subscribers and long-polls of one server together.
LISTENERS_MAX = 16_000
# How often every log with a waiting client is checked without a notification, and how many at a
# time.
LOOK_EVERY_S = 1
# The newest signals cached for all subscribers, per channel and in total.
TAIL_SIGNALS_MAX = 64
TAIL_BYTES_MAX = 128 * KIB
TAILS_BYTES_MAX = 64 * MIB
# The interval of keep-alive messages on an idle event stream.
EVENTS_KEEPALIVE_S = 15
# A body up to this size is read and sent at once, a larger one in chunks.
INLINE_BODY_BYTES_MAX = 256 * KIB
SEND_CHUNK_BYTES = MIB
# A character of one byte may take six in JSON: \u0001.
JSON_ESCAPE_RATIO_MAX = 6
CONNECTIONS_MAX = 20_000
# Per server; and in total, including old ones that end while new ones start.
SERVER_WORKERS_MAX = 64
WORKERS_MAX = 256
# A JSON body without content: the arguments of a thread, a report or a capability.
ASKED_BYTES_MAX = MIB
# How many previews a rendered prompt shows.
RENDERED_ARTIFACTS_MAX = 10

# Clients over HTTP: how often a request is sent in total, and for how long.
SENDS_MAX = 6
CONNECT_S_MAX = 10
REPLY_S_DEFAULT = 30
REPLY_JSON_BYTES_MAX = 256 * MIB
# A body up to this size is read at once, and may be cached for the next pull.
HELD_BODY_BYTES_MAX = MIB
OTHER_SERVERS_MAX = 8
RECONNECT_S_MIN = 1
RECONNECT_S_MAX = 60
BRIDGE_S_DEFAULT = 600

PROVIDER_REPLY_S_MAX = 3_600
PROVIDER_ERROR_CHARS_MAX = 500

# MCP. The size of one answer in a conversation; longer ones become a preview and a link.
MCP_TEXT_BYTES_MAX = 32 * KIB
MCP_TOKENS_MAX = 8_000
# The size of one read of a resource; longer ones are read in parts.
MCP_RESOURCE_BYTES_MAX = MIB
# One message over HTTP, which is parsed on the event loop; longer content is pushed with /push.
MCP_MESSAGE_BYTES_MAX = 8 * MIB
SUMMARY_CHARS_MAX = 1_000

# Capabilities
HOPS_DEFAULT = 50
HOPS_MAX = 100_000
CACHE_TTL_S_DEFAULT = DAY_S
ARGS_BYTES_MAX = 64 * KIB

# Search
SEARCH_RESULTS_MAX = 50
# Of a query; the first SEARCH_TERMS_MAX of its words are searched, the others are listed.
QUERY_CHARS_MAX = 10_000
SEARCH_SNIPPET_CHARS = 240
PASSAGE_CHARS = 1_000
PASSAGE_CHARS_MIN = 200
# How many of the newest additions are kept for followers; one further behind scans everything.
ADDED_KEPT = 10_000
# How many of the best passages are scored again in detail.
SEARCH_CANDIDATES = 200

# http.fetch
FETCH_BYTES_MAX = 10 * MIB
FETCH_PREVIEW_CHARS = 512
URL_CHARS_MAX = 8_192

# A2A. One request, which is parsed on the event loop, and its items.
A2A_MESSAGE_BYTES_MAX = 8 * MIB
# A part up to this size is in the event itself; a longer one is an artifact, sent as a ref to
# clients that know our extension, else in full up to the second size.
A2A_PART_BYTES_KEPT = KIB
A2A_PARTS_BYTES_KEPT_MAX = 8 * KIB
A2A_PREVIEW_CHARS = 300
# Text of an agent that arrives faster than it is written is joined, up to this size.
A2A_PIECE_CHARS_MAX = 8 * KIB
A2A_UPDATES_MAX = 10_000
A2A_TASK_S_MAX = 3_600
A2A_TASKS_AT_ONCE_MAX = 256
A2A_REPLY_BYTES_MAX = 16 * MIB

# Project files
PROJECT_FILE_BYTES_MAX = 8 * MIB
# Stored besides the files: the link to the thread, and cached briefs.
PROJECT_OWN_BYTES_MAX = 4 * MIB
# The share of a window for `start`, and the number of items of `next`.
BRIEF_TOKENS_DEFAULT = 600
BRIEF_TOKENS_MIN = 60
NEXT_TODOS_MAX = 5
REVIEW_DUE_S = DAY_S
PROJECT_FIELD_CHARS_MAX = 20_000
HEARTBEAT_TODOS_MAX = 5
HEARTBEAT_EXEC_S_DEFAULT = 600

# Slices: pieces of a body, by tokens, and how much may be read for each token.
PIECE_TOKENS_DEFAULT = 2_000
# Any single character fits into this, so that consecutive pieces always advance.
PIECE_TOKENS_MIN = 10
PIECE_TOKENS_MAX = 100_000
# Few texts have more bytes per token than this; their pieces are shorter than allowed.
PIECE_BYTES_PER_TOKEN = 32
# A line is folded at this length if it is shown with others, and around matches in it.
LINE_BYTES_SHOWN = 2 * KIB
MATCH_BYTES_SHOWN = 400
# The line index has an entry about every this many bytes, up to this many entries.
LINE_MARK_BYTES = 64 * KIB
# Code and documents up to this size are searched for symbols and headings.
PARSED_BYTES_MAX = 8 * MIB
TITLE_CHARS_MAX = 500
# Names compared with a missing one for suggestions, and how much of each.
NAMES_COMPARED_MAX = 500
NAME_CHARS_COMPARED = 80
GREP_PATTERNS_MAX = 16
# Steps of programs that are tried on short texts without a check of the clock.
GREP_QUICK_STEPS_MAX = 400
# Bodies up to this size are searched record by record, and this many bodies at most.
GREP_RECORDS_BYTES_MAX = 16 * MIB
GREP_RECORD_BYTES_MAX = 16 * KIB
GREP_MATCHES_DEFAULT = 200
GREP_BLOCK_BYTES_MIN = 8 * KIB
# For a match near the start of a block all of it may be read; larger blocks are not faster.
GREP_BLOCK_BYTES_MAX = 32 * KIB
# Plain texts are searched faster than blocks are read, and only up to the match.
GREP_TEXT_BLOCK_BYTES_MAX = 128 * KIB
# Matches of one call; the search stops there.
GREP_COUNTED_MAX = 250_000
# How much is read again if a line is longer than a block: no longer match is found across it,
# unless there is no other match and the whole line is no longer than the second limit.
GREP_OVERLAP_BYTES = 4 * KIB
GREP_ARTIFACTS_MAX = 100_000
GREP_S_MAX = 10
GREP_ONE_S_MAX = 1.4

SPENDING_REFS_MAX = 1_000

# Reports
REPORT_PREVIEWS_MAX = 20

# Traces: limits on the runs of a thread that are read, and on the details shown of one.
TRACE_RUNS_DEFAULT = 20
TRACE_RUNS_MAX = 1_000

# Windows and handoffs
BUDGET_TOKENS_DEFAULT = 4_096
BUDGET_TOKENS_MAX = 10_000_000
HANDOFF_TOKENS_DEFAULT = 2_000

PAGE_ROWS = 50
"""Rows of a list before `more`."""
PAGE_PIECE_TOKENS = 20_000
"""Of a piece of a body on one screen: 200 lines seldom have more."""
PAGE_GRAPH_NODES_MAX = 60

assert (
    PREVIEW_BYTES_MAX
    < PREVIEW_HEAD_BYTES_MAX
    < HEAD_BYTES_MAX
    < ROW_BODY_BYTES_MAX
    < BODY_BYTES_MAX
)
assert BODY_BYTES_MAX < SEAL_CHUNK_BYTES * SEAL_CHUNKS_MAX
assert TTL_S_DEFAULT < TOMBSTONE_S < TTL_S_MAX
assert PREVIEW_BYTES_MAX < MCP_TEXT_BYTES_MAX < MCP_RESOURCE_BYTES_MAX < MCP_MESSAGE_BYTES_MAX
assert UNFINISHED_PUSH_S < TOMBSTONE_S
# A request repeated with a key learns from tombstones what happened to the first attempt.
assert KEY_KEPT_S + UNFINISHED_PUSH_S < TOMBSTONE_S
assert SIGNAL_KEPT_S_DEFAULT < TOMBSTONE_S
assert SIGNALS_KEPT_DEFAULT < SIGNALS_KEPT_MAX
assert CHANNEL_CHARS_MAX + 2 <= LOG_CHARS_MAX
assert LISTENERS_MAX < CONNECTIONS_MAX
# JSON may encode a character as six.
assert 6 * max(A2A_PARTS_BYTES_KEPT_MAX, A2A_PIECE_CHARS_MAX) < EVENT_BYTES_MAX
assert 2 * SERVER_WORKERS_MAX < WORKERS_MAX
assert RECONNECT_S_MIN < RECONNECT_S_MAX
assert MESSAGE_BYTES_MAX < TAIL_BYTES_MAX < TAILS_BYTES_MAX
assert HEADER_BYTES_MAX < STATE_BYTES_MAX < BODY_BYTES_MAX
assert 2 * STATE_BYTES_MAX <= ARCHIVE_HISTORY_BYTES_MAX < ARCHIVE_BYTES_MAX
assert HEADER_ACTIONS <= ACTIONS_KEPT
assert HOPS_DEFAULT <= HOPS_MAX
assert SEARCH_RESULTS_MAX < SEARCH_CANDIDATES
assert PASSAGE_CHARS_MIN < PASSAGE_CHARS
assert CACHE_TTL_S_DEFAULT + TTL_S_DEFAULT <= TTL_S_MAX
assert HEADER_ARTIFACTS <= ARTIFACTS_KEPT
assert RENDERED_ARTIFACTS_MAX <= ARTIFACTS_KEPT
assert ARGS_BYTES_MAX < ASKED_BYTES_MAX <= JSON_BODY_BYTES_MAX
# The largest body has room, with another at the same time.
assert 2 * JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < HELD_BODIES_BYTES_MAX
assert LOOK_CPU_S_MAX + LOOK_PART_CPU_S_MAX < 2 < PARSER_REAL_S_MAX
assert INDEX_CPU_S_MAX + INDEX_PART_CPU_S_MAX < 2
# The largest body has room: in memory, and in a file, which an import copies.
assert JSON_BODY_BYTES_MAX < HELD_BY_ONE_BYTES_MAX < HELD_BODIES_BYTES_MAX
assert 2 * ARCHIVE_BYTES_MAX < UPLOADS_BY_ONE_BYTES_MAX < UPLOADS_BYTES_MAX
assert JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < ARCHIVE_BYTES_MAX
assert UPLOADS_BY_ONE_MAX < UPLOADS_MAX < CONNECTIONS_MAX
assert LINGER_ENDLESS_BYTES_MAX < LINGER_BYTES_MAX
assert PIECE_TOKENS_MIN < PIECE_TOKENS_DEFAULT < PIECE_TOKENS_MAX
assert GREP_OVERLAP_BYTES < GREP_BLOCK_BYTES_MIN < GREP_BLOCK_BYTES_MAX
assert GREP_BLOCK_BYTES_MAX < GREP_TEXT_BLOCK_BYTES_MAX <= CHUNK_BYTES
assert MATCH_BYTES_SHOWN < LINE_BYTES_SHOWN < LINE_MARK_BYTES
