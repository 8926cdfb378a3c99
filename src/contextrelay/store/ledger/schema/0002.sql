-- What was written last, for other processes that listen: one entry a transaction, the newest kept.
CREATE TABLE news (
    id INTEGER PRIMARY KEY,
    writer INTEGER NOT NULL,
    logs TEXT NOT NULL
);
