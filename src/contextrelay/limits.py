"""Limits: a name for every bound, with its unit last.

Rule: passing a limit is an error that names it, or a cut that is counted; never a silent cut.
"""

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400

# Bodies
BODY_BYTES_MAX = 50 * MIB
# Bodies up to this size are ledger rows, larger ones blobs: measured in docs/decisions/0004.
ROW_BODY_BYTES_MAX = 32 * KIB
CHUNK_BYTES = 256 * KIB
# From here on a body is written while it is hashed: a thread costs less than either.
OVERLAP_BYTES_MIN = MIB
WARM_BODY_BYTES_MAX = 256 * KIB
WARM_BYTES_MAX = 16 * MIB
CHECKED_BLOBS_MAX = 100_000
WARM_DESCRIPTIONS_MAX = 4_096

# What describes a body
NAME_CHARS_MAX = 255
MEDIA_TYPE_CHARS_MAX = 127
CHANNEL_CHARS_MAX = 512
LABEL_CHARS_MAX = 128
METADATA_BYTES_MAX = 64 * KIB
JSON_DEPTH_MAX = 64
SOURCE_REFS_MAX = 100
PREVIEW_BYTES_MAX = 2 * KIB
# How much of the head is defused for a preview, which is cut after that: enough to see a phrase
# across the cut, and no more, because it is most of what a small push costs.
PREVIEW_HEAD_BYTES_MAX = 4 * KIB
# How much of the head is kept to guess the type.
HEAD_BYTES_MAX = 16 * KIB
# How often defusing looks again for what its own replacements laid bare.
DEFUSE_ROUNDS_MAX = 8

# State
STATE_BYTES_MAX = 16 * MIB
PATCH_OPERATIONS_MAX = 1_000
POINTER_CHARS_MAX = 4_096
HEADER_BYTES_MAX = 2 * KIB
HEADER_FACTS = 10
HEADER_CONSTRAINTS = 5
HEADER_QUESTIONS = 5
HEADER_STEPS = 5
HEADER_ARTIFACTS = 10
HEADER_ACTIONS = 5
# What compaction leaves of the lists that grow by themselves.
ACTIONS_KEPT = 50
ARTIFACTS_KEPT = 200

# Time
TTL_S_DEFAULT = DAY_S
TTL_S_MAX = 365 * DAY_S
TOMBSTONE_S = 30 * DAY_S
# A push that has not finished after this long is taken for dead by a sweep. Being wrong costs that
# push a retry, never its content (core/bodies.py).
UNFINISHED_PUSH_S = 3_600
# How long an idempotency key is known after it was first used.
KEY_KEPT_S = DAY_S
KEY_CHARS_MAX = 128

SWEEP_EVERY_S = 60

# Signals
SIGNAL_KEPT_S_DEFAULT = DAY_S
SIGNALS_KEPT_DEFAULT = 10_000
SIGNALS_KEPT_MAX = 1_000_000
MESSAGE_BYTES_MAX = 64 * KIB
# A push whose signal is not sent after this long is taken for cut short: a sweep sends it.
SIGNAL_PENDING_S = 60
# More signals than are to be kept may be, by one part in so many: trimming each time costs more.
SIGNALS_TRIMMED_SHARE = 10
# The age of signals is told in so many steps of the time that they are kept.
SIGNAL_AGE_STEPS = 24
# How long a client waits for a signal if it does not say.
WAIT_S_DEFAULT = 30

# Counts
PUSH_MANY_ITEMS_MAX = 10_000
LIST_ITEMS_MAX = 1_000
FIND_ITEMS_MAX = 10
SWEEP_ITEMS_MAX = 100_000
QUICK_SWEEP_ITEMS = 200
PAGE_ROWS_MAX = 1_000
RETRIES_MAX = 100
PROBLEMS_MAX = 100

# Threads. All snapshots of a thread together weigh at most this share of its patches: 1 / 3.
SNAPSHOT_WEIGHT = 3
# Fewer patches than this are replayed faster than a snapshot is worth.
SNAPSHOT_PATCH_BYTES_MIN = 64 * KIB
LIVE_THREADS_MAX = 256
LIVE_BYTES_MAX = 256 * MIB
CHANGES_TOLD_MAX = 100
ARCHIVE_BYTES_MAX = 1024 * MIB
ARCHIVE_ENTRIES_MAX = 20_000
ARCHIVE_RATIO_MAX = 200
# Of the events in an archive: they are committed at once, so they are in memory at once.
ARCHIVE_HISTORY_BYTES_MAX = 64 * MIB
EVENT_BYTES_MAX = 64 * KIB

# The ledger
LOG_CHARS_MAX = 600
GROUP_COMMITS_MAX = 512
BUSY_MS_MAX = 30_000
RESERVE_BYTES = 4 * MIB

# Numbers: what every reader of JSON tells apart, and every engine can hold.
NUMBER_MAX = 2**53 - 1

# HTTP
QUERY_FIELDS_MAX = 50
HEADER_BYTES_IN_MAX = 64 * KIB
HEADERS_IN_MAX = 200
# How long a client may take to send its headers, and a certain part of a body.
HEAD_S_MAX = 10
BODY_IDLE_S = 30
BODY_PACE_BYTES = KIB
# What a client has to read of a reply in SLOW_READER_S.
READ_PACE_BYTES = KIB
# What is read of a body after it was refused, so that its sender sees the refusal.
LINGER_BYTES_MAX = 16 * MIB
LINGER_S_MAX = 2
# A body up to this size is collected in memory, a larger one in a file.
UPLOAD_MEMORY_BYTES = 256 * KIB
JSON_BODY_BYTES_MAX = 32 * MIB
# Bodies that are held in memory until they are whole: of one process, all together.
HELD_BODIES_BYTES_MAX = 1024 * MIB
# How long a long-poll may wait, and how long a subscriber may take to read a frame.
WAIT_S_MAX = 60
SLOW_READER_S = 30
KEEPALIVE_S = 30
FRAME_BYTES_IN_MAX = 64 * KIB
# Who waits for news: subscribers and long-polls of one server together.
LISTENERS_MAX = 16_000
# How often every log that somebody waits for is looked at without a hint, so many at a time.
LOOK_EVERY_S = 1
LOOK_LOGS_MAX = 128
# The newest signals of a channel that are kept for all its subscribers, and of all channels.
TAIL_SIGNALS_MAX = 64
TAIL_BYTES_MAX = 128 * KIB
TAILS_BYTES_MAX = 64 * MIB
# An idle stream of events says this often that it is there.
EVENTS_KEEPALIVE_S = 15
# How long who was cut off may take to read that it was.
CUT_S_MAX = 10
# A body up to this size is read and sent at once, a larger one in chunks.
INLINE_BODY_BYTES_MAX = 256 * KIB
SEND_CHUNK_BYTES = MIB
COMPRESS_BYTES_MIN = KIB
# A character of one byte may take six in JSON: \u0001.
JSON_ESCAPE_RATIO_MAX = 6
CONNECTIONS_MAX = 20_000
# Of the files that a process may have open, those that are not for connections.
FILES_KEPT = 256
SOCKET_BACKLOG = 2_048
SERVER_THREADS_MAX = 32
# Requests that take long: capabilities, backups, whole-store checks.
SLOW_AT_ONCE_MAX = 16
# JSON beyond what is parsed on the event loop, each in memory whole.
LARGE_JSON_AT_ONCE_MAX = 4
PUSHES_TOGETHER_MAX = 256
# Of a server; and of all that are counted together, while old ones end and new ones begin.
SERVER_WORKERS_MAX = 64
WORKERS_MAX = 256
SHUTDOWN_S_MAX = 10
# A JSON body that holds no content: what a thread, a report or a capability is asked with.
ASKED_BYTES_MAX = MIB
# JSON up to this size is read on the event loop: a thread costs more than it.
ASKED_AT_ONCE_BYTES_MAX = 64 * KIB
# A form: how many parts it has, what its fields take, and what stands before each part.
FORM_PARTS_MAX = 20
FORM_FIELD_BYTES_MAX = 64 * KIB
FORM_HEADERS_MAX = 8
FORM_HEADER_BYTES_MAX = 4 * KIB
FORM_BOUNDARY_BYTES_MAX = 70
# How many previews a rendered prompt shows.
RENDERED_ARTIFACTS_MAX = 10
# How long the store may take to answer before the server says that it is not ready.
READY_S_MAX = 5

# Clients over HTTP. A request is sent at most so often, and not again after so long.
SENDS_MAX = 6
# Where nobody listens, somebody waits to hear of it.
UNHEARD_SENDS_MAX = 4
RESEND_S_MAX = 30
RESEND_PAUSE_S_MAX = 5
CONNECT_S_MAX = 10
REPLY_S_DEFAULT = 30
# Verbs that go through the whole store, or bring much: until the first byte of the reply.
LONG_REPLY_S = 600
IDLE_CONNECTION_S = 20
CLIENT_CONNECTIONS_MAX = 64
REPLY_JSON_BYTES_MAX = 256 * MIB
# A body up to this size is read at once, and may be kept for the next time it is pulled.
HELD_BODY_BYTES_MAX = MIB
HELD_BYTES_MAX = 16 * MIB
HELD_REFS_MAX = 10_000
OTHER_SERVERS_MAX = 8
RECONNECT_S_MIN = 1
RECONNECT_S_MAX = 60
BRIDGE_TASKS_MAX = 8
BRIDGE_S_DEFAULT = 600

# Capabilities
HOPS_DEFAULT = 50
HOPS_MAX = 100_000
CACHE_TTL_S_DEFAULT = DAY_S
CAPABILITIES_MAX = 1_000
ARGS_BYTES_MAX = 64 * KIB
ARGS_SCHEMA_BYTES_MAX = 64 * KIB
SEARCH_RESULTS_MAX = 50
SEARCH_QUERY_CHARS_MAX = 1_000
SEARCH_TERMS_MAX = 32
# A search without an index reads this many artifacts, the newest, and so much of each.
SEARCH_ARTIFACTS_MAX = 1_000
SEARCH_TEXT_BYTES_MAX = 256 * KIB
SEARCH_SNIPPET_CHARS = 240
FETCH_BYTES_MAX = 10 * MIB
FETCH_S_MAX = 30
FETCH_REDIRECTS_MAX = 5
FETCH_ADDRESSES_MAX = 8
FETCH_NAMES_AT_ONCE_MAX = 32
URL_CHARS_MAX = 8_192

# Reports
REPORT_PREVIEWS_MAX = 20
REPORT_EVENTS_MAX = 200

assert (
    PREVIEW_BYTES_MAX
    < PREVIEW_HEAD_BYTES_MAX
    < HEAD_BYTES_MAX
    < ROW_BODY_BYTES_MAX
    < BODY_BYTES_MAX
)
assert TTL_S_DEFAULT < TOMBSTONE_S < TTL_S_MAX
assert UNFINISHED_PUSH_S < TOMBSTONE_S
# Who asks again with a key learns from tombstones what became of the first time.
assert KEY_KEPT_S + UNFINISHED_PUSH_S < TOMBSTONE_S
assert SIGNAL_PENDING_S < UNFINISHED_PUSH_S
assert SIGNAL_KEPT_S_DEFAULT < TOMBSTONE_S
assert SIGNALS_KEPT_DEFAULT < SIGNALS_KEPT_MAX
assert CHANNEL_CHARS_MAX + 2 <= LOG_CHARS_MAX
assert LISTENERS_MAX < CONNECTIONS_MAX
assert 2 * SERVER_WORKERS_MAX < WORKERS_MAX
assert RECONNECT_S_MIN < RECONNECT_S_MAX
assert MESSAGE_BYTES_MAX < TAIL_BYTES_MAX < TAILS_BYTES_MAX
assert HEADER_BYTES_MAX < STATE_BYTES_MAX < BODY_BYTES_MAX
assert 2 * STATE_BYTES_MAX <= ARCHIVE_HISTORY_BYTES_MAX < ARCHIVE_BYTES_MAX
assert HEADER_ACTIONS <= ACTIONS_KEPT
assert HOPS_DEFAULT <= HOPS_MAX
assert CACHE_TTL_S_DEFAULT + TTL_S_DEFAULT <= TTL_S_MAX
assert HEADER_ARTIFACTS <= ARTIFACTS_KEPT
assert RENDERED_ARTIFACTS_MAX <= ARTIFACTS_KEPT
assert ARGS_BYTES_MAX < ASKED_BYTES_MAX <= JSON_BODY_BYTES_MAX
# The largest body there may be finds room, with another beside it.
assert 2 * JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < HELD_BODIES_BYTES_MAX
