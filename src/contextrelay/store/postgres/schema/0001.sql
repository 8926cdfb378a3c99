-- The first schema. Names are compared by their bytes; a key is bytes, because text holds no NUL.

-- Every log that has facts, rows or a head. Its entry is locked by whoever writes to the log, until
-- the end of the transaction: so numbers have no gap, and become visible in their order.
CREATE TABLE log (
    name text COLLATE "C" PRIMARY KEY,
    head bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE fact (
    log text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (log, seq)
);

-- The rows of logs. (ROW is a word of SQL.)
CREATE TABLE item (
    log text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    body bytea NOT NULL,
    due_ms bigint,
    PRIMARY KEY (log, kind, key)
);
CREATE INDEX item_due ON item (due_ms) WHERE due_ms IS NOT NULL;

CREATE TABLE tally (
    name text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (name, field)
);

-- Bodies too large for a row. One without a name is a draft.
CREATE TABLE body (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" UNIQUE,
    size_bytes bigint NOT NULL DEFAULT 0,
    written_ms bigint NOT NULL
);
CREATE INDEX body_draft ON body (written_ms) WHERE name IS NULL;

CREATE TABLE piece (
    body bigint NOT NULL REFERENCES body ON DELETE CASCADE,
    start bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (body, start)
);
-- Not compressed: any part of a piece is then read alone.
ALTER TABLE piece ALTER bytes SET STORAGE EXTERNAL;

CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE
RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- What the transaction does is on disk when it is acknowledged, also where the server's setting would
-- not wait for it.
CREATE FUNCTION be_durable() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN true;
END $$;

-- Whether the store is locked by another token. It stays as it is until the end of the transaction:
-- swap_lock waits for all who have asked.
CREATE FUNCTION is_locked_for(token bytea) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1380273241, 'log'::regclass::oid::int);
    PERFORM be_durable();
    RETURN token <> coalesce(
        (SELECT body FROM item WHERE log = 'restore' AND kind = 'lock' AND key = '-'), ''
    );
END $$;

-- Lock logs, in their order, making those that are not there; their heads.
CREATE FUNCTION lock_logs(logs text[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    heads bigint[];
BEGIN
    LOOP
        -- First those that are new: whoever has a lock waits for no lesser name.
        INSERT INTO log (name, head) SELECT name, 0 FROM unnest(logs) AS name
        ON CONFLICT DO NOTHING;
        SELECT array_agg(locked.head ORDER BY locked.name) INTO heads FROM (
            SELECT log.name, log.head FROM log WHERE log.name = ANY (logs)
            ORDER BY log.name FOR UPDATE
        ) AS locked;
        EXIT WHEN cardinality(heads) = cardinality(logs);
        -- One was dropped while we waited for it.
    END LOOP;
    RETURN heads;
END $$;

-- Do writes in order, those of several callers together: each caller's up to the first whose
-- expected head (-1 for any) is not the head. For each write: the head after it; -1 - head where
-- that was not the expected one; NULL where it was not begun. NULL if the store is locked.
CREATE FUNCTION commit_writes(
    token bytea,
    channel text,
    logs text[], -- Each once, in order.
    write_caller int[],
    write_log int[], -- Its place in `logs`.
    write_expect bigint[],
    write_facts int[], -- How many.
    fact_write int[],
    fact_log text[],
    fact_offset int[],
    fact_body bytea[],
    row_write int[],
    row_log text[],
    row_kind text[],
    row_key bytea[],
    row_body bytea[], -- NULL deletes.
    row_due_ms bigint[]
) RETURNS bigint[]
LANGUAGE plpgsql SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    before bigint[];
    heads bigint[];
    bases bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(write_log)]);
    results bigint[] := bases;
    refused int := -1;
    place int;
BEGIN
    IF is_locked_for(token) THEN
        RETURN NULL;
    END IF;
    before := lock_logs(logs);
    heads := before;
    FOR i IN 1 .. cardinality(write_log) LOOP
        CONTINUE WHEN write_caller[i] = refused;
        place := write_log[i];
        IF write_expect[i] NOT IN (-1, heads[place]) THEN
            refused := write_caller[i];
            results[i] := -1 - heads[place];
            CONTINUE;
        END IF;
        bases[i] := heads[place];
        heads[place] := heads[place] + write_facts[i];
        results[i] := heads[place];
    END LOOP;
    IF cardinality(fact_write) > 0 THEN
        INSERT INTO fact (log, seq, body)
        SELECT said.log, bases[said.write] + said.place, said.body
        FROM unnest(fact_write, fact_log, fact_offset, fact_body) AS said (write, log, place, body)
        WHERE bases[said.write] IS NOT NULL;
        UPDATE log SET head = moved.head FROM unnest(logs, heads) AS moved (name, head)
        WHERE log.name = moved.name AND log.head <> moved.head;
        PERFORM pg_notify(channel, moved.name)
        FROM unnest(logs, before, heads) AS moved (name, old_head, head)
        WHERE moved.head > moved.old_head;
    END IF;
    IF cardinality(row_write) > 0 THEN
        WITH said AS (
            SELECT DISTINCT ON (each.log COLLATE "C", each.kind COLLATE "C", each.key) each.*
            FROM unnest(row_write, row_log, row_kind, row_key, row_body, row_due_ms)
                WITH ORDINALITY AS each (write, log, kind, key, body, due_ms, place)
            WHERE bases[each.write] IS NOT NULL
            ORDER BY each.log COLLATE "C", each.kind COLLATE "C", each.key, each.place DESC
        ), gone AS (
            DELETE FROM item USING said
            WHERE said.body IS NULL
                AND item.log = said.log AND item.kind = said.kind AND item.key = said.key
        )
        INSERT INTO item (log, kind, key, body, due_ms)
        SELECT said.log, said.kind, said.key, said.body, said.due_ms
        FROM said WHERE said.body IS NOT NULL
        ON CONFLICT (log, kind, key) DO UPDATE SET body = excluded.body, due_ms = excluded.due_ms;
    END IF;
    PERFORM forget_empty(logs, heads);
    RETURN results;
END $$;

-- Forget those of some locked logs that have nothing.
CREATE FUNCTION forget_empty(logs text[], heads bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    IF 0 = ANY (heads) THEN
        DELETE FROM log WHERE name = ANY (logs) AND head = 0
            AND NOT EXISTS (SELECT FROM item WHERE item.log = log.name);
    END IF;
END $$;

-- Forget facts before a number; the head does not go back, and goes on to the number before it.
-- Whether the store was not locked.
CREATE FUNCTION trim_log(token bytea, trimmed text, before bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    heads bigint[];
BEGIN
    IF is_locked_for(token) THEN
        RETURN false;
    END IF;
    heads := lock_logs(ARRAY[trimmed]);
    DELETE FROM fact WHERE log = trimmed AND seq < before;
    IF heads[1] < before - 1 THEN
        heads[1] := before - 1;
        UPDATE log SET head = heads[1] WHERE name = trimmed;
    END IF;
    PERFORM forget_empty(ARRAY[trimmed], heads);
    RETURN true;
END $$;

-- Forget a log whose head is the expected one. Its head; NULL if the store is locked.
CREATE FUNCTION drop_log(token bytea, dropped text, expected bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    heads bigint[];
BEGIN
    IF is_locked_for(token) THEN
        RETURN NULL;
    END IF;
    heads := lock_logs(ARRAY[dropped]);
    IF heads[1] = expected THEN
        DELETE FROM fact WHERE log = dropped;
        DELETE FROM item WHERE log = dropped;
        DELETE FROM log WHERE name = dropped;
    ELSE
        PERFORM forget_empty(ARRAY[dropped], heads);
    END IF;
    RETURN heads[1];
END $$;

-- Lock the store, or unlock it, if the token of its lock is the old one; whether it was.
CREATE FUNCTION swap_lock(old bytea, new bytea) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    -- Waits for all writers that have asked whether it is locked.
    PERFORM pg_advisory_xact_lock(1380273241, 'log'::regclass::oid::int);
    IF is_locked_for(old) THEN
        RETURN false;
    END IF;
    PERFORM lock_logs(ARRAY['restore']);
    DELETE FROM item WHERE log = 'restore' AND kind = 'lock' AND key = '-';
    IF new <> '' THEN
        INSERT INTO item (log, kind, key, body) VALUES ('restore', 'lock', '-', new);
    END IF;
    PERFORM forget_empty(ARRAY['restore'], (SELECT array_agg(head) FROM log WHERE name = 'restore'));
    RETURN true;
END $$;
