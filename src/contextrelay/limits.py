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

# What describes a body
NAME_CHARS_MAX = 255
MEDIA_TYPE_CHARS_MAX = 127
CHANNEL_CHARS_MAX = 512
LABEL_CHARS_MAX = 128
METADATA_BYTES_MAX = 64 * KIB
JSON_DEPTH_MAX = 64
SOURCE_REFS_MAX = 100
PREVIEW_BYTES_MAX = 2 * KIB
# How much of the head is kept to guess the type and to make a preview, which is cut after defusing.
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

SWEEP_EVERY_S = 60

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

# Reports
REPORT_PREVIEWS_MAX = 20
REPORT_EVENTS_MAX = 200

assert PREVIEW_BYTES_MAX < HEAD_BYTES_MAX < ROW_BODY_BYTES_MAX < BODY_BYTES_MAX
assert TTL_S_DEFAULT < TOMBSTONE_S < TTL_S_MAX
assert UNFINISHED_PUSH_S < TOMBSTONE_S
assert CHANNEL_CHARS_MAX + 2 <= LOG_CHARS_MAX
assert HEADER_BYTES_MAX < STATE_BYTES_MAX < BODY_BYTES_MAX
assert 2 * STATE_BYTES_MAX <= ARCHIVE_HISTORY_BYTES_MAX < ARCHIVE_BYTES_MAX
assert HEADER_ACTIONS <= ACTIONS_KEPT
assert HEADER_ARTIFACTS <= ARTIFACTS_KEPT
