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
# Blobs that one push, or pushes side by side, write and sync at the same time.
KEEPERS_MAX = 16
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
# Of one body that is longer than BODY_BYTES_MAX.
PARTS_MAX = 1_000
PREVIEW_BYTES_MAX = 2 * KIB
# How much of the head is defused for a preview, which is cut after that: enough to see a phrase
# across the cut, and no more, because it is most of what a small push costs.
PREVIEW_HEAD_BYTES_MAX = 4 * KIB
# How much of the head is kept to guess the type.
HEAD_BYTES_MAX = 16 * KIB
# How often defusing looks again for what its own replacements laid bare.
DEFUSE_ROUNDS_MAX = 8
# After so many texts it pays to make the sieve of all phrases, and what its states may take.
SIEVED_FROM = 16
SIEVE_BYTES_MAX = 16 * MIB

# Tokens. A text is counted in pieces of about this many characters.
TOKEN_PIECE_CHARS = 256 * KIB
# How much of runs that have no place to cut is counted before the rest is estimated.
TOKEN_RUN_CHARS_MAX = MIB
# What an estimate reads at the start, in the middle and at the end.
TOKEN_SAMPLE_CHARS = 8 * KIB

# Outlines. A larger body is outlined by its first part, and the outline says so.
OUTLINE_BYTES_MAX = 16 * MIB
OUTLINE_TOKENS_DEFAULT = 500
OUTLINE_TOKENS_MIN = 20
OUTLINE_TOKENS_MAX = 16_000
# Python up to this size is read by its statements; more, by its lines.
OUTLINE_PARSE_BYTES_MAX = 4 * MIB
# Columns that are described; more are counted.
OUTLINE_COLUMNS_MAX = 2_000
# Cells of a table that are read; a few more where the last row has them.
OUTLINE_CELLS_MAX = 2_000_000
# Lines that a digest chooses from at each end, and errors.
DIGEST_LINES_MAX = 2_000
# Of the output of a command: how much of each end is kept for a digest, how much is searched for
# errors, how much is held in memory, and what is printed as it is.
OUTPUT_END_BYTES = 64 * KIB
OUTPUT_SEARCHED_BYTES_MAX = 64 * MIB
OUTPUT_MEMORY_BYTES = MIB
OUTPUT_TOKENS_DEFAULT = 1_000
OUTPUT_TOKENS_MIN = 60
OUTPUT_TOKENS_MAX = 1_000_000
COMMAND_CHARS_SHOWN = 300
DIGEST_TOKENS_DEFAULT = 1_000
# Entries of an archive that are listed.
OUTLINE_ENTRIES_MAX = 1_000
# How many things are considered; more are counted.
OUTLINE_PIECES_MAX = 4_000
# A longer line is looked at up to here.
OUTLINE_LINE_CHARS_MAX = 2_000
# More lines, or tags of a page, than these are not looked at, and the outline says so.
OUTLINE_LINES_MAX = 500_000
OUTLINE_STATEMENTS_MAX = 500_000
OUTLINE_TAGS_MAX = 200_000
# Of lines of a log that differ in more than digits; as much more is looked at for errors.
OUTLINE_SHAPES_CHARS_MAX = 5_000_000
# Lines that may be frames of a trace; from the next one on traces are not looked for.
OUTLINE_FRAMES_MAX = 30_000

# Looking into bodies (bounded/bodies.py): at once up to a size, else in a child, for so much
# time of a processor; then a part is, for less; then lines. A pack looks so long in all.
LOOK_INLINE_BYTES_MAX = 4 * KIB
LOOK_CPU_S_MAX = 0.9
LOOK_PART_BYTES_MAX = 512 * KIB
LOOK_PART_CPU_S_MAX = 0.4
LOOK_PLAIN_BYTES_MAX = 64 * KIB
SLICE_CPU_S_MAX = 1.4
INDEX_CPU_S_MAX = 0.9
INDEX_PART_CPU_S_MAX = 0.3
LOOKS_S_MAX = 20
# Such children, their memory besides the body; and waiting for one, its start, its reply, for work.
PARSERS_MAX = 2
PARSER_ROOM_BYTES_MAX = 224 * MIB
PARSER_GROWTH_BYTES_MAX = 64 * MIB
PARSER_REPLY_BYTES_MAX = 64 * MIB
PARSER_WAIT_S_MAX = 1.0
PARSER_START_S_MAX = 30
PARSER_REAL_S_MAX = 10.0
PARSER_IDLE_S = 60

# Seals (docs/security.md). A chunk's number has 32 bits, which is also how often a key of AES-GCM
# may be used.
SEAL_CHUNK_BYTES = 64 * KIB
SEAL_CHUNKS_MAX = 2**32
# Fernet cannot be streamed: what is sealed so is in memory whole.
SEAL_WHOLE_BYTES_MAX = BODY_BYTES_MAX

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
HEADER_DECISIONS = 3
# Prompt bundles: what a model is sent about a thread, however much is in it.
BUNDLE_PREVIEWS_MAX = 10
BUNDLE_TURNS_MAX = 8
BUNDLE_TURN_BYTES_MAX = 2 * KIB
BUNDLE_SYSTEM_BYTES_MAX = 16 * KIB
BUNDLE_USER_BYTES_MAX = 64 * KIB
# Pipelines: the file, its graph, and what a run may take.
PIPELINE_BYTES_MAX = 256 * KIB
PIPELINE_MODULE_BYTES_MAX = MIB
PIPELINE_DEPTH_MAX = 32
PIPELINE_NODES_MAX = 20_000
PIPELINE_STEPS_MAX = 2_000
PIPELINE_PARALLEL_MAX = 256
PIPELINE_FILES_DEEP_MAX = 8
FOREACH_ITEMS_MAX = 10_000
TEMPLATE_PATH_MAX = 32
CONDITION_CHARS_MAX = 2_000
CONDITION_DEPTH_MAX = 32
STEP_KEY_CHARS_MAX = 700
STEP_RETRIES_MAX = 10
# Between two tries of a step, doubled each time; and from asking it to end until it is killed,
# and from there until nobody waits for it any more.
STEP_BACKOFF_S = 0.5
STEP_BACKOFF_S_MAX = 30.0
STEP_GRACE_S = 3.0
STEP_KILLED_S = 0.5
# How often a run looks whether it was cancelled, or a step of it approved.
RUN_LOOK_S = 0.3
# A step that takes longer is written down as running, for those who look; a run that waits says
# daily that it goes on, so that it is not taken for one that was killed.
STEP_SHOWN_S = 1.0
RUN_ALIVE_S = 86_400
RUN_CANCEL_S_MAX = 30.0
WATCH_S = 0.3
DASK_CONNECT_S_MAX = 10
PIPELINE_PARALLEL_DEFAULT = 4
STEP_ERROR_BYTES_KEPT = 2_000
FAILURES_SHOWN = 10
STEP_REASON_CHARS_MAX = 2_000
# A result that is looked into: for a schema, a condition, a list to fan out over.
STEP_JSON_BYTES_MAX = 8 * MIB
STEP_S_MAX = 7 * 86_400
RUN_TOKENS_MAX = 10**9
# Runs: a model's rounds with tools, its words, and what it may change in one run.
RUN_ROUNDS_DEFAULT = 8
RUN_ROUNDS_MAX = 100
RUN_CALLS_MAX = 32
RUN_OUTPUT_TOKENS_DEFAULT = 8_192
RUN_ANSWER_BYTES_MAX = 8 * MIB
RUN_ARGUMENTS_BYTES_MAX = MIB
RUN_PIECE_TOKENS_MAX = 8_000
RUN_ENTRY_CHARS_MAX = 2_000
RUN_EVENTS_LOOKED_AT = 100
DRAFT_ENTRIES_MAX = 100
# Files that git tracks, for a model to read: one, the names of all, and how many are listed.
RUN_FILE_BYTES_MAX = 4 * MIB
RUN_WHOLE_FILE_BYTES_MAX = 8 * KIB
RUN_FILES_BYTES_MAX = 8 * MIB
RUN_FILES_SHOWN_MAX = 500
RUN_FILES_S_MAX = 20
# Of a script that the echo provider plays.
ECHO_SCRIPT_BYTES_MAX = 16 * MIB
# What compaction leaves of the lists that grow by themselves.
ACTIONS_KEPT = 50
ARTIFACTS_KEPT = 200

# Time
TTL_S_DEFAULT = DAY_S
TTL_S_MAX = 365 * DAY_S
TOMBSTONE_S = 30 * DAY_S
ENDED_KEPT_S_DEFAULT = 30 * DAY_S
# A run that goes on says so daily (RUN_ALIVE_S): after this long without it was killed.
UNENDED_KEPT_S_MIN = 7 * DAY_S
# A push that has not finished after this long is taken for dead by a sweep. Being wrong costs that
# push a retry, never its content (core/artifacts/bodies.py).
UNFINISHED_PUSH_S = 3_600
# How long an idempotency key is known after it was first used.
KEY_KEPT_S = DAY_S
KEY_CHARS_MAX = 128

SWEEP_EVERY_S = 60

# Keys. How many prefixes one may have, and how long the record of one stays that is good no more.
KEY_PREFIXES_MAX = 32
KEY_FORGOTTEN_S = TOMBSTONE_S
KEY_RATE_MAX = 1_000_000
# Tokens of which a server process remembers that they are good, and for how long it does without
# asking the ledger: to ask each time would double what a small pull costs.
KEYS_REMEMBERED_MAX = 10_000
KEY_TRUSTED_S = 0.005
# An identity provider is asked about a token it knew after this.
TOKEN_TRUSTED_S = 60.0
# How long readers trust that no restore has locked the store; it waits as long before it writes.
LOCK_TRUSTED_S = 0.25
# Of a key's requests a minute a server takes this share at a time from what all servers share.
RATE_SLICES = 100
# Wrong tokens that one address may send in a minute, and of how many addresses that is counted.
WRONG_TOKENS_PER_MINUTE = 60
WRONG_ADDRESSES_MAX = 10_000
# How often servers write down what was done with which key.
USAGE_EVERY_S = 1

# Signals
SIGNAL_KEPT_S_DEFAULT = DAY_S
SIGNALS_KEPT_DEFAULT = 10_000
SIGNALS_KEPT_MAX = 1_000_000
MESSAGE_BYTES_MAX = 64 * KIB
# More signals than are to be kept may be, by one part in so many: trimming each time costs more.
SIGNALS_TRIMMED_SHARE = 10
# The age of signals is measured in so many steps of the time that they are kept.
SIGNAL_AGE_STEPS = 24
# How long a client waits for a signal if it does not say.
WAIT_S_DEFAULT = 30

# Counts
PUSH_MANY_ITEMS_MAX = 10_000
LIST_LOOKED_AT_MAX = 10_000
"""Artifacts that one page of a filtered listing looks at."""
EXPIRING_LOOKED_AT_MAX = 1_000
"""Of the due list, to find what expires soon."""
LIST_ITEMS_MAX = 1_000
FIND_ITEMS_MAX = 10
SWEEP_ITEMS_MAX = 100_000
QUICK_SWEEP_ITEMS = 200
PAGE_ROWS_MAX = 1_000
# Of a migration: how many facts or rows are read at a time, what is gathered before it is written,
# how often the source is gone through until nothing more changes, how often progress is shown, how
# many look at logs and how far ahead, and how many bodies are copied at a time.
MIGRATE_PAGE = 100
MIGRATE_BATCH_BYTES = MIB
MIGRATE_BATCH_WRITES = 500
MIGRATE_PASSES_MAX = 4
MIGRATE_SHOW_S = 0.5
MIGRATE_THREADS = 8
MIGRATE_AHEAD = 16
MIGRATE_BODIES = 4
RETRIES_MAX = 100
PROBLEMS_MAX = 100

# Threads. All snapshots of a thread together weigh at most this share of its patches: 1 / 3.
SNAPSHOT_WEIGHT = 3
# Fewer patches than this are replayed faster than a snapshot is worth.
SNAPSHOT_PATCH_BYTES_MIN = 64 * KIB
LIVE_THREADS_MAX = 256
# States at older versions that are kept with a live one, and how many versions one goes on.
PAST_STATES_MAX = 3
PAST_STEPS_MAX = 200
LIVE_BYTES_MAX = 256 * MIB
CHANGES_SHOWN_MAX = 100
ARCHIVE_BYTES_MAX = 1024 * MIB
ARCHIVE_ENTRIES_MAX = 20_000
ARCHIVE_RATIO_MAX = 200
# Of the events in an archive: they are committed at once, so they are in memory at once.
ARCHIVE_HISTORY_BYTES_MAX = 64 * MIB
EVENT_BYTES_MAX = 64 * KIB

# The ledger
LOG_CHARS_MAX = 600
GROUP_COMMITS_MAX = 512
# Of one process to PostgreSQL, whose own default for all of them is 100.
POSTGRES_CONNECTIONS_MAX = 16
# Of a body in an object store; what a draft holds in memory at a time.
OBJECT_PART_BYTES = 8 * MIB
OBJECT_RETRIES_MAX = 4
LARGE_BLOBS_KNOWN_MAX = 10_000
# Of two machines over one engine: what expires does so by the clock of the one who looks.
CLOCKS_DIFFER_MS_MAX = 60_000
# After so many pages of 4 KiB the write-ahead log goes into the database file: keys are random, and
# a page that was written to several times meanwhile goes there once.
CHECKPOINT_PAGES = 4_000
BUSY_MS_MAX = 30_000
RESERVE_BYTES = 4 * MIB

# Numbers: what every reader of JSON keeps apart, and every engine can hold.
NUMBER_MAX = 2**53 - 1

# HTTP
QUERY_FIELDS_MAX = 50
HEADER_BYTES_IN_MAX = 64 * KIB
HEADERS_IN_MAX = 200
# How long a client may take to send its headers.
HEAD_S_MAX = 10
# A body comes at this pace at least, looked at every BODY_IDLE_S, and is all here after BODY_S_MAX.
BODY_IDLE_S = 30
BODY_BYTES_PER_S_MIN = 16 * KIB
BODY_S_MAX = 3_600
# What a client has to read of a reply in SLOW_READER_S.
READ_PACE_BYTES = KIB
# What is read of a body after it was refused, so that its sender sees the refusal: in all, of one
# whose length is not known, for how long, how long nothing may come, and on how many connections of
# a process at a time.
LINGER_BYTES_MAX = 1024 * MIB
LINGER_ENDLESS_BYTES_MAX = 16 * MIB
LINGER_S_MAX = 30
LINGER_IDLE_S = 5
LINGERING_MAX = 256
# A body up to this size is collected in memory, a larger one in a file.
UPLOAD_MEMORY_BYTES = 256 * KIB
JSON_BODY_BYTES_MAX = 32 * MIB
# Bodies that are held in memory until they are whole: of one process, and of one caller of it. A
# caller is a key, or an address where no key is asked for.
HELD_BODIES_BYTES_MAX = 1024 * MIB
HELD_BY_ONE_BYTES_MAX = 256 * MIB
# Bodies on their way in, and what they take of the temporary folder: likewise.
UPLOADS_MAX = 2_048
UPLOADS_BY_ONE_MAX = 512
UPLOADS_BYTES_MAX = 8 * 1024 * MIB
UPLOADS_BY_ONE_BYTES_MAX = 2 * 1024 * MIB + 64 * MIB
# One caller takes at most this part of the room that the temporary folder has.
UPLOADS_ROOM_SHARE = 2
UPLOAD_RETRY_S = 2
# A body up to this size is here with its headers, mostly: taking it in costs less than asking first
# whether its thread is there and its quota has room.
ASKED_FIRST_BYTES_MIN = 64 * KIB
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
# Requests that take long: capabilities, backups, whole-store checks; and that look into bodies.
SLOW_AT_ONCE_MAX = 16
LOOKS_AT_ONCE_MAX = 8
# JSON beyond what is parsed on the event loop, each in memory whole.
LARGE_JSON_AT_ONCE_MAX = 4
PUSHES_TOGETHER_MAX = 256
# Threads of small pushes: one prepares a batch while that of another is synced.
SMALL_PUSHERS_MAX = 2
# Threads of pushes too large for a row: one hashes while the files of another are synced.
LARGE_PUSHERS_MAX = 2
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
# Of the message, and of the hint, of an error that a server sends.
SERVER_ERROR_CHARS_MAX = 4_000
RECONNECT_S_MIN = 1
RECONNECT_S_MAX = 60
BRIDGE_TASKS_MAX = 8
BRIDGE_S_DEFAULT = 600
BRIDGE_S_MAX = 3_600

# Providers of models. A call that is refused for now is made again so often, after as long as the
# provider asks for; where that is longer than this, it is not.
PROVIDER_RETRIES_MAX = 5
PROVIDER_PAUSE_S_MAX = 60
PROVIDER_BACKOFF_S_MAX = 8
# How long nothing may come: a model may think, or be loaded, before its first word.
PROVIDER_IDLE_S = 300
# How long, and how many bytes, may come without a part of an answer: comments and empty pieces.
# One line holds an answer of ANSWER_BYTES_MAX whose characters are all escaped, and what is echoed.
PROVIDER_PROGRESS_S_MAX = 900
PROVIDER_IDLE_BYTES_MAX = 8 * MIB
# One reply: 128,000 tokens take 40 MB where each has an event of its own.
PROVIDER_REPLY_BYTES_MAX = 64 * MIB
PROVIDER_REPLY_S_MAX = 3_600
PROVIDER_KEY_BYTES_MAX = 4 * KIB
PROVIDER_ERROR_CHARS_MAX = 500
# What a model says in one call, text and tools together; longer text is cut, and marked so.
ANSWER_BYTES_MAX = MIB
ANSWER_CALLS_MAX = 64
# The reasoning that comes with an answer, and the blocks or items that an answer has.
THOUGHT_BYTES_MAX = MIB
ANSWER_BLOCKS_MAX = 1_000
# The window that Ollama is asked for at least: its own default may be less than a bundle.
OLLAMA_WINDOW_TOKENS_MIN = 8_192
PRICED_MODELS_MAX = 1_000
PRICES_BYTES_MAX = 256 * KIB

# MCP. What one answer puts into a conversation; more comes as a preview and a link.
MCP_TEXT_BYTES_MAX = 32 * KIB
MCP_TOKENS_MAX = 8_000
MCP_ERROR_CHARS_MAX = 2_000
MCP_PREVIEW_CHARS = 400
# Refs that a client pushed itself, on the connection that is open: it may read them as they are.
MCP_OWN_REFS_MAX = 1_000
# What one read of a resource brings; more is read in parts.
MCP_RESOURCE_BYTES_MAX = MIB
# Of one message over HTTP, which is parsed on the event loop; what is longer is pushed by /push.
MCP_MESSAGE_BYTES_MAX = 8 * MIB
# How often a tool that waits reports progress, to a client that asked for it.
MCP_PROGRESS_S = 5.0
# What one completion of an argument proposes: the protocol allows no more.
MCP_COMPLETIONS_MAX = 100
# Of one client; and streams of news to clients of one server.
MCP_SUBSCRIPTIONS_MAX = 32
MCP_STREAMS_MAX = 1_000
# Sessions of clients of the older protocol, in one process; and how long one may be unused.
MCP_SESSIONS_MAX = 1_000
MCP_SESSION_IDLE_S = 3_600.0
SUMMARY_CHARS_MAX = 1_000
ENTRY_CHARS_MAX = 4_000

# Capabilities
HOPS_DEFAULT = 50
HOPS_MAX = 100_000
CACHE_TTL_S_DEFAULT = DAY_S
CAPABILITIES_MAX = 1_000
ARGS_BYTES_MAX = 64 * KIB
ARGS_SCHEMA_BYTES_MAX = 64 * KIB

# Search
SEARCH_RESULTS_MAX = 50
SEARCH_QUERY_CHARS_MAX = 1_000
SEARCH_TERMS_MAX = 32
# Of a query; of its words the first SEARCH_TERMS_MAX are searched for, and the others named.
QUERY_CHARS_MAX = 10_000
SEARCH_SNIPPET_CHARS = 240
# Places in one body that have every word of a query, looked for first.
SEARCH_EXACT_MAX = 12
SEARCH_EXACT_S_MAX = 0.5
# Words of texts and queries: the longest, and how many stems are kept at hand.
WORD_CHARS_MAX = 40
# A text may become so many times as long when it is folded, as Korean does three times; what is
# behind that is not searched. There are characters that become eighteen.
FOLDED_RATIO_MAX = 4
STEMS_KEPT_MAX = 200_000
# Passages: what a text is cut into to be searched.
PASSAGE_LINES_MAX = 24
PASSAGE_CHARS = 1_000
PASSAGE_CHARS_MIN = 200
PASSAGE_WORDS_MAX = 1_023
# Of one artifact, so much is searched: bytes of its body, passages, and text about it.
SEARCHED_BYTES_MAX = 4 * MIB
SEARCHED_PASSAGES_MAX = 20_000
# Different ones in a body: 4 MiB of prose or code have some 50,000.
SEARCHED_WORDS_MAX = 60_000
SEARCHED_ABOUT_CHARS_MAX = 4_096
# How long a query may spend on bringing the search index up, and a sweep; and wait for another.
SEARCH_CATCH_UP_S = 1.0
SWEEP_CATCH_UP_S = 60.0
SEARCH_WAIT_MS_MAX = 2_000
# So much is added to the search index in one transaction, and looked at again for late pushes.
SEARCH_BATCH_TEXTS = 200
SEARCH_BATCH_S = 0.25
SEARCH_GAPS_MAX = 100
# How many of the newest additions are kept for those who follow them; who is further behind looks
# through everything.
ADDED_KEPT = 10_000
SEARCH_GONE_MAX = 1_000
# How many of the best passages are looked at closely.
SEARCH_CANDIDATES = 200
# How often a query is ranked again because what it found is gone.
SEARCH_ROUNDS_MAX = 5

# http.fetch
FETCH_BYTES_MAX = 10 * MIB
FETCH_S_MAX = 30
FETCH_PREVIEW_CHARS = 512
FETCH_REDIRECTS_MAX = 5
FETCH_ADDRESSES_MAX = 8
FETCH_NAMES_AT_ONCE_MAX = 32
URL_CHARS_MAX = 8_192

# A2A. One request, which is parsed on the event loop, and what is in it.
A2A_MESSAGE_BYTES_MAX = 8 * MIB
A2A_PARTS_MAX = 100
A2A_EXTENSIONS_MAX = 16
A2A_TASKS_PAGE_DEFAULT = 50
A2A_TASKS_PAGE_MAX = 100
# The tasks that one listing looks through and counts, newest first; the next page may begin behind
# them. How the ended ones stand is remembered, for as many.
A2A_TASKS_LISTED_MAX = 10_000
# A part up to this size is in the event itself; a longer one is an artifact, and goes out as a ref
# to those who know our extension, else whole up to the second size.
A2A_PART_BYTES_KEPT = KIB
A2A_PARTS_BYTES_KEPT_MAX = 8 * KIB
A2A_PART_BYTES_SENT_MAX = 4 * MIB
A2A_PREVIEW_CHARS = 300
# A text up to this size is said to the agent; a longer one is a ref that it looks into.
A2A_WORDS_BYTES_MAX = 16 * KIB
# Words of an agent that come faster than they are written go together, up to this.
A2A_PIECE_CHARS_MAX = 8 * KIB
A2A_PIECES_WAITING_MAX = 64
# What one task may come to, how long it may take, and how many run at once in one process.
A2A_ANSWER_BYTES_MAX = 8 * MIB
A2A_UPDATES_MAX = 10_000
A2A_MESSAGES_MAX = 1_000
A2A_TASK_S_MAX = 3_600
A2A_TASKS_AT_ONCE_MAX = 256
# An agent that works for longer is stopped at once where its task is canceled by another process.
A2A_WATCHED_AFTER_S = 0.2
A2A_AGENTS_MAX = 32
A2A_CARD_S = 300
# Of an agent elsewhere: its card, all of an answer, and what we put into one message.
A2A_CARD_BYTES_MAX = 256 * KIB
A2A_REPLY_BYTES_MAX = 16 * MIB
A2A_SENT_BYTES_MAX = 4 * MIB
# Requests over gRPC under way at once in one process; one more is refused.
A2A_RPCS_MAX = 1_000
# Webhooks of one task, and how often one is tried: after 1, 2, 4 ... seconds.
A2A_HOOKS_MAX = 16
A2A_HOOK_TRIES_MAX = 5
A2A_HOOK_S_MAX = 10
A2A_HOOK_ANSWER_BYTES_MAX = 64 * KIB
# Tasks whose webhooks one process serves, and how many of them it calls at once. What waits is in
# the ledger: a process looks this often for what another left there, for as long as it is news.
A2A_HOOKS_SERVED_MAX = 1_000
A2A_HOOKS_AT_ONCE_MAX = 32
A2A_HOOKS_LOOK_S = 60
A2A_HOOK_NEWS_S_MAX = DAY_S

# Project files
PROJECT_FILE_BYTES_MAX = 8 * MIB
# The journal holds each of the four files before and after, with its quotes and line ends escaped.
PROJECT_JOURNAL_BYTES_MAX = 16 * PROJECT_FILE_BYTES_MAX
# What is kept besides the files: the link to the thread, and cached briefs.
PROJECT_OWN_BYTES_MAX = 4 * MIB
# What is copied before it is overwritten, and what is looked at in a folder of ours.
PROJECT_COPY_BYTES_MAX = 64 * MIB
PROJECT_ENTRIES_MAX = 10_000
PROJECT_TODOS_MAX = 10_000
PROJECT_LEVELS_MAX = 64
# What `start` may take of a window, and `next` may name.
BRIEF_TOKENS_DEFAULT = 600
BRIEF_TOKENS_MIN = 60
PRIME_TOKENS_DEFAULT = 600
NEXT_TODOS_MAX = 5
BRIEF_DECISIONS_MAX = 5
REVIEW_DUE_S = DAY_S
ARCHIVE_AFTER_S = 7 * DAY_S
STALE_AFTER_S = 7 * DAY_S
# How often a change is made again because a person saved a file meanwhile.
PROJECT_RETRIES_MAX = 20
PROJECT_LOCK_S_MAX = 30
# Copies of state.json as an agent saw it at `start`, to merge by at `finish`; and of what was
# overwritten when asked.
PROJECT_SEEN_MAX = 50
PROJECT_BACKUPS_MAX = 20
PROJECT_FIELD_CHARS_MAX = 20_000
HEARTBEAT_TODOS_MAX = 5
HEARTBEAT_EXEC_S_DEFAULT = 600
HEARTBEAT_RESULT_CHARS_MAX = 2_000
HEARTBEAT_FILES_MAX = 20
HEARTBEAT_FILES_BYTES_MAX = 16 * MIB
SECRETS_SHOWN_MAX = 20

# Looking inside: pieces of a body, by tokens, and how much may be read for so many.
PIECE_TOKENS_DEFAULT = 2_000
# Any one character fits into this, so that pieces that follow each other come to an end.
PIECE_TOKENS_MIN = 10
PIECE_TOKENS_MAX = 100_000
# Few texts have more bytes a token than this; of those that do, a piece is shorter than it may be.
PIECE_BYTES_PER_TOKEN = 32
# A line is folded at this length where others are shown with it, and around what was found in it.
LINE_BYTES_SHOWN = 2 * KIB
MATCH_BYTES_SHOWN = 400
# Where lines begin is remembered about every so many bytes, in so many places.
LINE_MARK_BYTES = 64 * KIB
LINE_MARKS_MAX = 1_024
SPAN_CHARS_MAX = 40
JSON_PATH_CHARS_MAX = 1_000
JSON_PATH_BYTES_MAX = 16 * MIB
# What the values of a document may take in memory, by an estimate, when it is built for a query.
JSON_PATH_ROOM_BYTES_MAX = 256 * MIB
JSON_PATH_STEPS_MAX = 500_000
JSON_PATH_MATCHES_MAX = 10_000
# What lies before the value that a JSON pointer means is skipped by a pattern that knows so many
# levels of brackets, and so many items at once.
JSON_SKIPPED_DEPTH = 64
JSON_SKIPPED_AT_ONCE = 32
# Of the same name in objects on the way of a JSON pointer; the last one counts.
JSON_SAME_NAMES_MAX = 1_000
TABLE_ROW_CHARS_MAX = 1_000_000
TABLE_COLUMNS_MAX = 20_000
CELL_CHARS_SHOWN = 200
# Code and documents up to this size are searched for symbols and headings.
PARSED_BYTES_MAX = 8 * MIB
TITLE_CHARS_MAX = 500
# Names that are compared with one that is not there, and how much of each.
NAMES_COMPARED_MAX = 500
NAME_CHARS_COMPARED = 80
# Of the fields of a JSON push that are not known, and may be misspelled.
PUSH_NAMES_MAX = 10
PUSH_NAMES_BYTES_MAX = 65_536
GREP_PATTERN_CHARS_MAX = 1_000
GREP_PATTERNS_MAX = 16
# Steps of programs that are tried on short texts without a look at the clock.
GREP_QUICK_STEPS_MAX = 400
GREP_CONTEXT_LINES_MAX = 100
# Bodies up to this size are looked into record by record, and of many so many.
GREP_RECORDS_BYTES_MAX = 16 * MIB
GREP_RECORDS_BODIES_MAX = 10
GREP_RECORD_BYTES_MAX = 16 * KIB
# A larger one is shown as it is, around what matches.
GREP_RECORD_DECODED_BYTES_MAX = 2 * MIB
# Of a record that another is in, parts that are looked at for what identifies it.
GREP_RECORD_MEMBERS_MAX = 200
GREP_NODES_MAX = 400_000
GREP_PLACES_MAX = 100_000
# Of a processor, and for each MiB more of it.
GREP_RECORDS_CPU_S_MAX = 1.0
GREP_RECORDS_CPU_S_A_MIB = 0.15
GREP_MATCHES_DEFAULT = 200
GREP_MATCHES_MAX = 10_000
# Of one regular expression, all that RE2 makes of it; and its program alone, 5,000 to 11,000 steps:
# where RE2 runs out of room, it takes each of them for each byte, in 3 to 12 ns.
GREP_PATTERN_BYTES_MAX = 4 * MIB
GREP_PROGRAM_BYTES_MAX = 192 * KIB
GREP_BLOCK_BYTES_MIN = 8 * KIB
# Steps of a program times bytes between two looks at the clock; more only in the smallest block.
GREP_STEPS_MAX = 1 << 25
# A match near the beginning of a block may have all of it read; larger ones are no faster.
GREP_BLOCK_BYTES_MAX = 32 * KIB
# Plain texts are looked for faster than blocks are made, and no further than to where they are.
GREP_TEXT_BLOCK_BYTES_MAX = 128 * KIB
# Matches of one call; more are not looked for.
GREP_COUNTED_MAX = 250_000
# What is looked at again where a line is longer than a block: no longer match is seen across it,
# unless nothing else is found and the whole line is no longer than the second.
GREP_OVERLAP_BYTES = 4 * KIB
GREP_LINE_BYTES_MAX = MIB
# In bodies of such a size lines are counted for what is shown alone, by marks; for larger ones it
# may take long to find those.
GREP_UNCOUNTED_BYTES_MIN = MIB
GREP_UNCOUNTED_BYTES_MAX = 64 * MIB
GREP_ARTIFACTS_MAX = 100_000
GREP_S_MAX = 10
GREP_ONE_S_MAX = 1.4
# A body of unknown length is held against its key's quota after every so many bytes.
QUOTA_CHECK_BYTES = 256 * KIB
DIFF_MIDDLE_BYTES_MAX = 4 * MIB
# Of comparing lines one by one, where a line stands on both sides more than once.
DIFF_STEPS_MAX = 20_000_000
# In the process that answers; 80 lines with 80. A child compares more.
DIFF_INLINE_STEPS_MAX = 512_000
DIFF_JSON_BYTES_MAX = MIB
DIFF_CONTEXT_LINES_MAX = 20
DIFF_CHANGES_MAX = 50
# Of a processor for comparing two bodies, and on the clock for reading them.
DIFF_CPU_S_MAX = 1.8
DIFF_S_MAX = 10

# Savings: how often what was read is written down, and of how many artifacts and threads at a time.
SPENDING_EVERY_S = 1.0
SPENDING_REFS_MAX = 1_000
SPENDING_THREADS_MAX = 64
# Names whose counters wait for an engine that is away.
SPENDING_NAMES_MAX = 1_000
# Savings are shown by day for so many days, and by so many agents and sources each.
SAVINGS_DAYS = 30
SAVINGS_NAMES_MAX = 40
PULL_MARKS_MAX = 8
"""Of what happened to one artifact since; more than twice shown and twice read says no more."""
# What a model writes to ask for a piece, about.
ASKING_TOKENS = 60
STATS_ARTIFACTS_MAX = 100_000
PROMPT_CALLS_DEFAULT = 10

# Reports
REPORT_PREVIEWS_MAX = 20
REPORT_EVENTS_MAX = 200

# Traces: what is kept of a thread's runs while they are read, and shown of one.
TRACE_RUNS_DEFAULT = 20
TRACE_RUNS_MAX = 1_000
TRACE_CALLS_MAX = 64
TRACE_TOOLS_MAX = 64
TRACE_REFS_MAX = 16
# Runs, calls, tools and refs of them, in all: a part takes less than a kilobyte.
TRACE_PARTS_MAX = 100_000
TRACE_TEXT_CHARS_MAX = 300
# Exchanges that a page has in full, how large one may be for that, how many of its texts are shown,
# and what of a text: many that are empty make a page of hundreds of megabytes too.
TRACE_EXCHANGES_MAX = 100
TRACE_EXCHANGE_BYTES_MAX = 512 * KIB
TRACE_EXCHANGE_TEXTS_MAX = 1_000
TRACE_EXCHANGE_TEXT_BYTES_MAX = 4 * KIB

# Replays: runs that are asked again, and how many at once are looked through word by word.
REPLAY_RUNS_MAX = 10_000
REPLAY_DIFFS_SHOWN = 5
REPLAY_OPEN_RUNS_MAX = 64
REPLAY_VERSIONS_TRIED = 20

# Windows and handoffs
PACK_BLOCKS_MAX = 1_000_000
PACK_ARTIFACTS_MAX = 1_000
PACK_INDEXES_MAX = 64
"""Threads whose relevance index is kept in memory, by how many and by the text they hold."""
PACK_INDEX_CHARS_MAX = 32 * MIB
STAND_IN_TOKENS_MAX = 150
"""What stands in a window for an artifact that is passed by ref."""
BUDGET_TOKENS_DEFAULT = 4_096
BUDGET_TOKENS_MAX = 10_000_000
PINS_MAX = 1_000
CALLS_MAX = 1_000_000
HANDOFF_TOKENS_DEFAULT = 2_000
HANDOFF_OUTLINE_TOKENS_MAX = 200
ASK_CHARS_MAX = 20_000
ASK_SHOWN_CHARS_MAX = 200
"""Of an ask, in listings and events."""

# The page

PAGE_COOKIE_S = 12 * 3_600
"""How long a sign-in to the page holds."""
PAGES_AT_ONCE_MAX = 8
PAGES_WAITING_MAX = 64
"""Pages that are made at the same time, and that wait for their turn; more are refused."""
PAGE_FORM_BYTES_MAX = 256 * KIB
PAGE_ROWS = 50
"""Rows of a list before `more`."""
PAGE_LIVE_S = 60
"""How long after its last event a thread is marked as live."""
PAGE_EVENTS = 100
"""Events of a thread's timeline on one screen."""
PAGE_EXCHANGES = 5
"""Of the newest calls of a model, those whose exchange a trace shows."""
PAGE_LINES = 200
"""Lines of a body on one screen."""
PAGE_PIECE_TOKENS = 20_000
"""Of a piece of a body on one screen: 200 lines seldom have more."""
PAGE_TABLE_ROWS = 100
PAGE_HITS = 25
PAGE_MARKDOWN_BYTES = 32 * KIB
"""Of a Markdown text that is shown rendered: hostile ones take about a second of that much."""
PAGE_MATCHES = 50
PAGE_MARKDOWNS_MAX = 16
PAGE_HEX_BYTES = 4_096
PAGE_CHANGES_MAX = 200
"""Changes between two versions of a state on one screen; more are counted."""
PAGE_TREE_ITEMS = 100
PAGE_TREE_DEPTH = 6
"""How far a JSON value is unfolded, across and down."""
PAGE_TEXT_CHARS = 20_000
"""Of a text that a screen shows whole: a report, a log of a step."""
PAGE_FRAME_BYTES_MAX = 2 * MIB
"""Of an image, or of HTML in its frame."""
PAGE_SEALED_BYTES_MAX = 16 * MIB
"""Of a sealed body that a browser opens."""
PAGE_GRAPH_NODES_MAX = 60
PAGE_GRAPH_EDGES = 120
PAGE_SIGNALS = 200
"""Signals of a channel on one screen."""
PAGE_RECENT_S = 10
"""How long a figure that takes a walk through the store is shown before it is taken again ..."""
PAGE_RECENT_TIMES = 20
"""... or so many times as long as it took."""
PAGE_RECENTS_MAX = 1_000
PAGE_EXPIRING_S = 6 * 3600
"""What expires within it is shown as what expires soon."""
# How long a screen waits for it: the first time, when an older one is there, and as JSON.
PAGE_FIGURE_S = 1.0
PAGE_AGAIN_S = 0.01
PAGE_FIGURE_S_MAX = 60
PAGE_KEYS = 50

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
# A request that is repeated with a key learns from tombstones what became of the first time.
assert KEY_KEPT_S + UNFINISHED_PUSH_S < TOMBSTONE_S
assert SIGNAL_KEPT_S_DEFAULT < TOMBSTONE_S
assert SIGNALS_KEPT_DEFAULT < SIGNALS_KEPT_MAX
assert CHANNEL_CHARS_MAX + 2 <= LOG_CHARS_MAX
assert LISTENERS_MAX < CONNECTIONS_MAX
# JSON may write a character as six.
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
# The largest body there may be finds room, with another at the same time.
assert 2 * JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < HELD_BODIES_BYTES_MAX
assert LOOK_CPU_S_MAX + LOOK_PART_CPU_S_MAX < 2 < PARSER_REAL_S_MAX
assert INDEX_CPU_S_MAX + INDEX_PART_CPU_S_MAX < 2
# The largest body finds room: in memory, and in a file, of which an import makes a copy.
assert JSON_BODY_BYTES_MAX < HELD_BY_ONE_BYTES_MAX < HELD_BODIES_BYTES_MAX
assert 2 * ARCHIVE_BYTES_MAX < UPLOADS_BY_ONE_BYTES_MAX < UPLOADS_BYTES_MAX
assert JSON_ESCAPE_RATIO_MAX * BODY_BYTES_MAX < ARCHIVE_BYTES_MAX
assert UPLOADS_BY_ONE_MAX < UPLOADS_MAX < CONNECTIONS_MAX
assert LINGER_ENDLESS_BYTES_MAX < LINGER_BYTES_MAX
assert PIECE_TOKENS_MIN < PIECE_TOKENS_DEFAULT < PIECE_TOKENS_MAX
assert GREP_OVERLAP_BYTES < GREP_BLOCK_BYTES_MIN < GREP_BLOCK_BYTES_MAX
assert GREP_BLOCK_BYTES_MAX < GREP_TEXT_BLOCK_BYTES_MAX <= CHUNK_BYTES
assert MATCH_BYTES_SHOWN < LINE_BYTES_SHOWN < LINE_MARK_BYTES
