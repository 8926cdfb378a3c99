-- The first schema: three tables keyed by the log's name, so that one log's entries lie together.
CREATE TABLE fact (
    log TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (log, seq)
) WITHOUT ROWID;

CREATE TABLE row (
    log TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    due_ms INTEGER,
    PRIMARY KEY (log, kind, key)
) WITHOUT ROWID;

CREATE INDEX row_due ON row (due_ms) WHERE due_ms IS NOT NULL;

-- The head of a log whose facts were all trimmed; the newest fact tells it otherwise.
CREATE TABLE trimmed (
    log TEXT NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tally (
    name TEXT NOT NULL,
    field TEXT NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (name, field)
) WITHOUT ROWID;
