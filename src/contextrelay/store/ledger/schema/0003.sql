-- Facts and rows lie in the order in which they come, and are found by an index. Keys are random: in
-- the tree of the keys each entry dirtied a page of its own, and one over 1 KB another beside it.
CREATE TABLE fact_as_it_comes (
    log TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (log, seq)
);
INSERT INTO fact_as_it_comes (log, seq, body) SELECT log, seq, body FROM fact ORDER BY log, seq;
DROP TABLE fact;
ALTER TABLE fact_as_it_comes RENAME TO fact;

CREATE TABLE row_as_it_comes (
    log TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    due_ms INTEGER,
    PRIMARY KEY (log, kind, key)
);
INSERT INTO row_as_it_comes (log, kind, key, body, due_ms)
    SELECT log, kind, key, body, due_ms FROM row ORDER BY log, kind, key;
DROP TABLE row;
ALTER TABLE row_as_it_comes RENAME TO row;

CREATE INDEX row_due ON row (due_ms) WHERE due_ms IS NOT NULL;
