"""Limits: a name for every bound, with its unit at the end.

Rule: exceeding a limit is an error that names the limit, or a cut that is counted; never a silent
cut.
"""

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400

# Bodies
BODY_BYTES_MAX = 50 * MIB
# Bodies up to this size are rows of the ledger, and larger ones are blobs (docs/decisions/0004 has
# the measurements).
ROW_BODY_BYTES_MAX = 32 * KIB
CHUNK_BYTES = 256 * KIB
# The number of blobs that one push, or concurrent pushes, write and sync at the same time.
KEEPERS_MAX = 16

# Descriptions of bodies
NAME_CHARS_MAX = 255
MEDIA_TYPE_CHARS_MAX = 127
CHANNEL_CHARS_MAX = 512
LABEL_CHARS_MAX = 128
METADATA_BYTES_MAX = 64 * KIB
JSON_DEPTH_MAX = 64
SOURCE_REFS_MAX = 100
# The maximum number of parts of a body that is longer than BODY_BYTES_MAX.
PARTS_MAX = 1_000
PREVIEW_BYTES_MAX = 2 * KIB
# The number of bytes at the start of a body that are made safe for a preview, before the preview is
# cut. It is enough to detect a phrase across the cut, and not more, because this is most of the
# cost of a small push.
PREVIEW_HEAD_BYTES_MAX = 4 * KIB
# The number of bytes at the start of a body that are kept to detect its type.
HEAD_BYTES_MAX = 16 * KIB

# Tokens. A text is counted in pieces of about this many characters.
TOKEN_PIECE_CHARS = 256 * KIB

# Outlines. Of a larger body only the first part is outlined, and the outline notes it.
OUTLINE_BYTES_MAX = 16 * MIB
OUTLINE_TOKENS_DEFAULT = 500
OUTLINE_TOKENS_MIN = 20
# The number of lines at each end, and of errors, from which a digest is selected.
DIGEST_LINES_MAX = 2_000
OUTPUT_SEARCHED_BYTES_MAX = 64 * MIB
OUTPUT_MEMORY_BYTES = MIB
OUTPUT_TOKENS_DEFAULT = 1_000
OUTPUT_TOKENS_MIN = 60
OUTPUT_TOKENS_MAX = 1_000_000
# The number of entries that are examined; further entries are only counted.
OUTLINE_PIECES_MAX = 4_000
# The number of characters of a line that are examined.
OUTLINE_LINE_CHARS_MAX = 2_000
# The number of lines, and of tags of a page, that are examined. If there are more, the outline
# notes it.
OUTLINE_LINES_MAX = 500_000
OUTLINE_TAGS_MAX = 200_000

# Limits for the inspection of bodies (bounded/bodies.py). Up to the first size a body is inspected
# in this process, larger ones in a child process for a limited CPU time. If that is not enough, a
# part of the body is tried for a shorter time, and then its lines are shown. A pack has a total
# limit.
LOOK_INLINE_BYTES_MAX = 4 * KIB
LOOK_CPU_S_MAX = 0.9
LOOK_PART_CPU_S_MAX = 0.4
INDEX_CPU_S_MAX = 0.9
INDEX_PART_CPU_S_MAX = 0.3
LOOKS_S_MAX = 20
PARSER_ROOM_BYTES_MAX = 224 * MIB
PARSER_REAL_S_MAX = 10.0

# Seals (docs/security.md). The number of a chunk has 32 bits, and a key of AES-GCM may be used for
# that many chunks.
SEAL_CHUNK_BYTES = 64 * KIB
SEAL_CHUNKS_MAX = 2**32

# State
STATE_BYTES_MAX = 16 * MIB
PATCH_OPERATIONS_MAX = 1_000
POINTER_CHARS_MAX = 4_096
HEADER_BYTES_MAX = 2 * KIB
HEADER_ARTIFACTS = 10
HEADER_ACTIONS = 5
# Prompt bundles: the limits of what a model is sent about a thread, whatever the size of the
# thread.
BUNDLE_PREVIEWS_MAX = 10
BUNDLE_TURN_BYTES_MAX = 2 * KIB
BUNDLE_SYSTEM_BYTES_MAX = 16 * KIB
BUNDLE_USER_BYTES_MAX = 64 * KIB
# Pipelines: the size of the file, its graph, and the limits of a run.
PIPELINE_BYTES_MAX = 256 * KIB
PIPELINE_PARALLEL_MAX = 256
FOREACH_ITEMS_MAX = 10_000
STEP_KEY_CHARS_MAX = 700
# The interval in seconds at which a run checks whether it was cancelled, or a step was approved.
RUN_LOOK_S = 0.3
PIPELINE_PARALLEL_DEFAULT = 4
STEP_ERROR_BYTES_KEPT = 2_000
STEP_REASON_CHARS_MAX = 2_000
# The maximum size of a result that is parsed: for a schema, a condition, or a list of foreach
# items.
STEP_JSON_BYTES_MAX = 8 * MIB
# Runs of models: the rounds with tools, and the output, of one run.
RUN_ROUNDS_DEFAULT = 8
RUN_ROUNDS_MAX = 100
RUN_OUTPUT_TOKENS_DEFAULT = 8_192
RUN_ANSWER_BYTES_MAX = 8 * MIB
# The number of entries that compaction keeps in lists that grow without limit.
ACTIONS_KEPT = 50
ARTIFACTS_KEPT = 200

# Time
TTL_S_DEFAULT = DAY_S
TTL_S_MAX = 365 * DAY_S
TOMBSTONE_S = 30 * DAY_S
# The number of seconds after which a sweep treats an unfinished push as dead. If that is wrong, the
# push has to be retried, but its content is never lost (core/artifacts/bodies.py).
UNFINISHED_PUSH_S = 3_600
# The number of seconds for which an idempotency key is remembered after its first use.
KEY_KEPT_S = DAY_S
KEY_CHARS_MAX = 128

SWEEP_EVERY_S = 60

KEY_RATE_MAX = 1_000_000
# The number of seconds for which readers assume that no restore has locked the store. A restore
# waits that long before it writes.
LOCK_TRUSTED_S = 0.25

# Signals
SIGNAL_KEPT_S_DEFAULT = DAY_S
SIGNALS_KEPT_DEFAULT = 10_000
SIGNALS_KEPT_MAX = 1_000_000
MESSAGE_BYTES_MAX = 64 * KIB
# The default number of seconds that a client waits for a signal.
WAIT_S_DEFAULT = 30

# Counts
PUSH_MANY_ITEMS_MAX = 10_000
LIST_LOOKED_AT_MAX = 10_000
"""The number of artifacts that one page of a filtered listing examines."""
LIST_ITEMS_MAX = 1_000
FIND_ITEMS_MAX = 10
QUICK_SWEEP_ITEMS = 200
PAGE_ROWS_MAX = 1_000
RETRIES_MAX = 100
PROBLEMS_MAX = 100

ARCHIVE_BYTES_MAX = 1024 * MIB
# The maximum size of the events in an archive. They are all in memory at once, because they are
# committed at once.
ARCHIVE_HISTORY_BYTES_MAX = 64 * MIB
EVENT_BYTES_MAX = 64 * KIB

# The ledger
LOG_CHARS_MAX = 600
BUSY_MS_MAX = 30_000
RESERVE_BYTES = 4 * MIB

# Numbers: the largest integer that every JSON parser represents exactly, and every engine can
# store.
NUMBER_MAX = 2**53 - 1

# HTTP
QUERY_FIELDS_MAX = 50
HEADER_BYTES_IN_MAX = 64 * KIB
HEADERS_IN_MAX = 200
# The number of bytes that are read of a refused body, so that its sender receives the refusal: in
# total, and if the length of the body is unknown.
LINGER_BYTES_MAX = 1024 * MIB
LINGER_ENDLESS_BYTES_MAX = 16 * MIB
# A body up to this size is collected in memory, and a larger one in a file.
UPLOAD_MEMORY_BYTES = 256 * KIB
JSON_BODY_BYTES_MAX = 32 * MIB
# The size of incomplete bodies held in memory: per process, and per caller. A caller is a key, or
# an address if no key is required.
HELD_BODIES_BYTES_MAX = 1024 * MIB
HELD_BY_ONE_BYTES_MAX = 256 * MIB
# The number of incoming bodies, and their space in the temporary folder: per process, and per
# caller.
UPLOADS_MAX = 2_048
UPLOADS_BY_ONE_MAX = 512
UPLOADS_BYTES_MAX = 8 * 1024 * MIB
UPLOADS_BY_ONE_BYTES_MAX = 2 * 1024 * MIB + 64 * MIB
# The number of seconds that a long-poll may wait, and that a subscriber may take to read a frame.
WAIT_S_MAX = 60
SLOW_READER_S = 30
KEEPALIVE_S = 30
# The number of waiting clients of one server: subscribers and long-polls together.
LISTENERS_MAX = 16_000
# The interval in seconds at which every log with a waiting client is checked, because a
# notification may be missing.
LOOK_EVERY_S = 1
# Limits of the newest signals cached for all subscribers: per channel, and in total.
TAIL_SIGNALS_MAX = 64
TAIL_BYTES_MAX = 128 * KIB
TAILS_BYTES_MAX = 64 * MIB
# The interval in seconds between keep-alive messages on an idle event stream.
EVENTS_KEEPALIVE_S = 15
# A body up to this size is read and sent at once, and a larger one in chunks.
INLINE_BODY_BYTES_MAX = 256 * KIB
SEND_CHUNK_BYTES = MIB
# The largest ratio between a text as JSON and in UTF-8: one byte may become six, such as \u0001.
JSON_ESCAPE_RATIO_MAX = 6
CONNECTIONS_MAX = 20_000
# The number of worker processes: per server, and in total, including old ones that end while new
# ones start.
SERVER_WORKERS_MAX = 64
WORKERS_MAX = 256
# The size of a JSON request without content: the arguments of a thread, a report or a capability.
ASKED_BYTES_MAX = MIB
# The number of previews that a rendered prompt shows.
RENDERED_ARTIFACTS_MAX = 10

# Clients over HTTP: how often a request is sent in total, and limits of time and size.
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

# MCP. The maximum size of an answer in a conversation; a longer answer becomes a preview and a
# link.
MCP_TEXT_BYTES_MAX = 32 * KIB
MCP_TOKENS_MAX = 8_000
# The maximum size of one read of a resource; a longer resource is read in parts.
MCP_RESOURCE_BYTES_MAX = MIB
# The maximum size of one message over HTTP, because it is parsed on the event loop. Longer content
# is pushed with /push.
MCP_MESSAGE_BYTES_MAX = 8 * MIB
SUMMARY_CHARS_MAX = 1_000

# Capabilities
HOPS_DEFAULT = 50
HOPS_MAX = 100_000
CACHE_TTL_S_DEFAULT = DAY_S
ARGS_BYTES_MAX = 64 * KIB

# Search
SEARCH_RESULTS_MAX = 50
# The maximum length of a query. The first SEARCH_TERMS_MAX of its words are searched, and the
# others are listed.
QUERY_CHARS_MAX = 10_000
SEARCH_SNIPPET_CHARS = 240
PASSAGE_CHARS = 1_000
PASSAGE_CHARS_MIN = 200
# The number of newest additions that are kept for followers. A follower that is further behind
# scans the whole catalog.
ADDED_KEPT = 10_000
# The number of best passages that are scored again in detail.
SEARCH_CANDIDATES = 200

# http.fetch
FETCH_BYTES_MAX = 10 * MIB
FETCH_PREVIEW_CHARS = 512
URL_CHARS_MAX = 8_192

# A2A. The maximum size of one request, which is parsed on the event loop, and limits of its items.
A2A_MESSAGE_BYTES_MAX = 8 * MIB
# A part up to the first size is stored in the event itself. A longer part is an artifact. It is
# sent as a ref to clients that know the Context Relay extension, else in full up to the second
# size.
A2A_PART_BYTES_KEPT = KIB
A2A_PARTS_BYTES_KEPT_MAX = 8 * KIB
A2A_PREVIEW_CHARS = 300
# Pieces of an agent's text that arrive faster than they are written are joined, up to this size.
A2A_PIECE_CHARS_MAX = 8 * KIB
A2A_UPDATES_MAX = 10_000
A2A_TASK_S_MAX = 3_600
A2A_TASKS_AT_ONCE_MAX = 256
A2A_REPLY_BYTES_MAX = 16 * MIB

# Project files
PROJECT_FILE_BYTES_MAX = 8 * MIB
# The maximum size of what is stored besides the files: the link to the thread, and cached briefs.
PROJECT_OWN_BYTES_MAX = 4 * MIB
# The number of tokens for `start`, and the number of items of `next`.
BRIEF_TOKENS_DEFAULT = 600
BRIEF_TOKENS_MIN = 60
NEXT_TODOS_MAX = 5
REVIEW_DUE_S = DAY_S
PROJECT_FIELD_CHARS_MAX = 20_000
HEARTBEAT_TODOS_MAX = 5
HEARTBEAT_EXEC_S_DEFAULT = 600

# Slices: the size in tokens of a piece of a body, and how much may be read for each token.
PIECE_TOKENS_DEFAULT = 2_000
# Any single character has at most this many tokens, so that consecutive pieces always advance.
PIECE_TOKENS_MIN = 10
PIECE_TOKENS_MAX = 100_000
# Few texts have more bytes per token than this. Pieces of such texts are shorter than allowed.
PIECE_BYTES_PER_TOKEN = 32
# The length at which a line is folded if it is shown with others, and the length shown around a
# match in it.
LINE_BYTES_SHOWN = 2 * KIB
MATCH_BYTES_SHOWN = 400
# The line index has about one entry per this many bytes.
LINE_MARK_BYTES = 64 * KIB
# Code and documents up to this size are searched for symbols and headings.
PARSED_BYTES_MAX = 8 * MIB
TITLE_CHARS_MAX = 500
# The number of names that are compared with a missing name for suggestions, and the number of
# characters compared.
NAMES_COMPARED_MAX = 500
NAME_CHARS_COMPARED = 80
GREP_PATTERNS_MAX = 16
# The total program size of regular expressions that are tried on short texts without a time check.
GREP_QUICK_STEPS_MAX = 400
# The maximum size of a body that is searched record by record, and of a record that is preferred.
GREP_RECORDS_BYTES_MAX = 16 * MIB
GREP_RECORD_BYTES_MAX = 16 * KIB
GREP_MATCHES_DEFAULT = 200
GREP_BLOCK_BYTES_MIN = 8 * KIB
# The maximum size of a block. For a match near its start, all of the block may be read, and larger
# blocks are not faster.
GREP_BLOCK_BYTES_MAX = 32 * KIB
# The maximum size of a block of plain text, which is searched faster than blocks are read, and only
# up to the match.
GREP_TEXT_BLOCK_BYTES_MAX = 128 * KIB
# The number of matches of one call after which the search stops.
GREP_COUNTED_MAX = 250_000
# If a line is longer than a block, this many bytes at its end are searched again with the next
# block. A match that crosses the border is found if it is at most that long, or if the whole line
# is at most GREP_LINE_BYTES_MAX long.
GREP_OVERLAP_BYTES = 4 * KIB
GREP_ARTIFACTS_MAX = 100_000
GREP_S_MAX = 10
GREP_ONE_S_MAX = 1.4

SPENDING_REFS_MAX = 1_000

# Reports
REPORT_PREVIEWS_MAX = 20

# Traces: the number of runs of a thread that are read.
TRACE_RUNS_DEFAULT = 20
TRACE_RUNS_MAX = 1_000

# Windows and handoffs
BUDGET_TOKENS_DEFAULT = 4_096
BUDGET_TOKENS_MAX = 10_000_000
HANDOFF_TOKENS_DEFAULT = 2_000

PAGE_ROWS = 50
"""The number of rows of a list that are shown before `more`."""
PAGE_PIECE_TOKENS = 20_000
"""The number of tokens of a body that one screen shows: 200 lines seldom have more."""
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
# If a request with a key is retried, tombstones tell what happened to the first attempt.
assert KEY_KEPT_S + UNFINISHED_PUSH_S < TOMBSTONE_S
assert SIGNAL_KEPT_S_DEFAULT < TOMBSTONE_S
assert SIGNALS_KEPT_DEFAULT < SIGNALS_KEPT_MAX
assert CHANNEL_CHARS_MAX + 2 <= LOG_CHARS_MAX
assert LISTENERS_MAX < CONNECTIONS_MAX
# JSON may encode a character as six characters.
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
# There is room in memory for the largest body, and for another one at the same time.
assert 2 * JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < HELD_BODIES_BYTES_MAX
assert LOOK_CPU_S_MAX + LOOK_PART_CPU_S_MAX < 2 < PARSER_REAL_S_MAX
assert INDEX_CPU_S_MAX + INDEX_PART_CPU_S_MAX < 2
# There is room for the largest body: in memory, and in a file, which an import copies.
assert JSON_BODY_BYTES_MAX < HELD_BY_ONE_BYTES_MAX < HELD_BODIES_BYTES_MAX
assert 2 * ARCHIVE_BYTES_MAX < UPLOADS_BY_ONE_BYTES_MAX < UPLOADS_BYTES_MAX
assert JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < ARCHIVE_BYTES_MAX
assert UPLOADS_BY_ONE_MAX < UPLOADS_MAX < CONNECTIONS_MAX
assert LINGER_ENDLESS_BYTES_MAX < LINGER_BYTES_MAX
assert PIECE_TOKENS_MIN < PIECE_TOKENS_DEFAULT < PIECE_TOKENS_MAX
assert GREP_OVERLAP_BYTES < GREP_BLOCK_BYTES_MIN < GREP_BLOCK_BYTES_MAX
assert GREP_BLOCK_BYTES_MAX < GREP_TEXT_BLOCK_BYTES_MAX <= CHUNK_BYTES
assert MATCH_BYTES_SHOWN < LINE_BYTES_SHOWN < LINE_MARK_BYTES
