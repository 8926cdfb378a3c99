-- A commit is applied whole or not at all, and once: the commits of several callers each for itself.

-- The commits of the last minutes by their ids. Without heads: given up, and refused from then on.
CREATE TABLE {store}.applied (
    id bytea PRIMARY KEY,
    heads bigint[],
    at_ms bigint NOT NULL
);
CREATE INDEX applied_at ON {store}.applied (at_ms);

-- The heads of a commit that was applied; NULL, and refused from now on, if it was not. It waits for
-- a commit under way: both add the same id.
CREATE FUNCTION {store}.settle_commit(commit_id bytea) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    INSERT INTO {store}.applied (id, at_ms) VALUES (commit_id, {store}.now_ms())
    ON CONFLICT (id) DO NOTHING;
    RETURN (SELECT heads FROM {store}.applied WHERE id = commit_id);
END $$;

-- Apply the writes of several callers, those of each whole or not at all. For each write: the head
-- after it; of a refused caller -1 - head for the write whose expected head (-1 for any) did not
-- hold, and NULL for its others; NULL for all writes of a caller that has given up. NULL if the store
-- is locked. The function with one argument less stays for servers of the version before.
CREATE FUNCTION {store}.commit_writes(
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
    row_due_ms bigint[],
    caller_id bytea[]
) RETURNS bigint[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    before bigint[];
    heads bigint[];
    added bigint[] := array_fill(0::bigint, ARRAY[cardinality(logs)]);
    bases bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(write_log)]);
    results bigint[] := bases;
    saved bigint[];
    caller int := -1;
    first int;
    is_refused boolean := false;
    has_refused boolean := false;
    done record;
    place int;
    has_deletes boolean := array_position(row_body, NULL) IS NOT NULL;
BEGIN
    -- As is_locked_for does: the lock stays as it is until the end of the transaction.
    PERFORM pg_advisory_xact_lock_shared(1380273241, '{store}.log'::regclass::oid::int);
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF token <> coalesce((
        SELECT body FROM {store}.item WHERE log = 'restore' AND kind = 'lock' AND key = '-'
    ), '') THEN
        RETURN NULL;
    END IF;
    FOR i IN 1 .. cardinality(write_log) LOOP
        added[write_log[i]] := added[write_log[i]] + write_facts[i];
    END LOOP;
    -- Lock the logs in their order, making those that are not there, and move their heads as if no
    -- write were refused.
    WITH moved AS (
        INSERT INTO {store}.log AS old (name, head)
        SELECT new.name, new.head FROM unnest(logs, added) AS new (name, head)
        ON CONFLICT (name) DO UPDATE SET head = old.head + excluded.head
        RETURNING name, head
    )
    SELECT array_agg(head ORDER BY name) INTO heads FROM moved;
    FOR i IN 1 .. cardinality(logs) LOOP
        before[i] := heads[i] - added[i];
    END LOOP;
    -- Asked with the logs locked: a first try that is still under way has ended by then.
    FOR done IN SELECT id, heads FROM {store}.applied WHERE id = ANY (caller_id) LOOP
        caller := array_position(caller_id, done.id) - 1;
        first := array_position(write_caller, caller);
        FOR i IN 1 .. coalesce(cardinality(done.heads), 0) LOOP
            results[first + i - 1] := done.heads[i];
        END LOOP;
        caller_id[caller + 1] := NULL;
        has_refused := true;
    END LOOP;
    heads := before;
    caller := -1;
    FOR i IN 1 .. cardinality(write_log) LOOP
        IF write_caller[i] <> caller THEN
            caller := write_caller[i];
            first := i;
            saved := heads;
            is_refused := caller_id[caller + 1] IS NULL;
        END IF;
        CONTINUE WHEN is_refused;
        place := write_log[i];
        IF write_expect[i] NOT IN (-1, heads[place]) THEN
            FOR j IN first .. i - 1 LOOP
                bases[j] := NULL;
                results[j] := NULL;
            END LOOP;
            results[i] := -1 - heads[place];
            heads := saved;
            caller_id[caller + 1] := NULL;
            is_refused := true;
            has_refused := true;
            CONTINUE;
        END IF;
        bases[i] := heads[place];
        heads[place] := heads[place] + write_facts[i];
        results[i] := heads[place];
    END LOOP;
    IF has_refused THEN
        UPDATE {store}.log SET head = moved.head FROM unnest(logs, heads) AS moved (name, head)
        WHERE log.name = moved.name AND log.head <> moved.head;
    END IF;
    INSERT INTO {store}.applied (id, heads, at_ms)
    SELECT new.id, array_agg(said.head ORDER BY said.number), {store}.now_ms()
    FROM unnest(caller_id) WITH ORDINALITY AS new (id, number)
    JOIN unnest(write_caller, results) WITH ORDINALITY AS said (caller, head, number)
        ON said.caller = new.number - 1
    WHERE new.id IS NOT NULL GROUP BY new.id;
    IF cardinality(fact_write) > 0 THEN
        INSERT INTO {store}.fact (log, seq, body)
        SELECT said.log, bases[said.write] + said.place, said.body
        FROM unnest(fact_write, fact_log, fact_offset, fact_body) AS said (write, log, place, body)
        WHERE bases[said.write] IS NOT NULL;
        PERFORM pg_notify(channel, moved.name)
        FROM unnest(logs, before, heads) AS moved (name, old_head, head)
        WHERE moved.head > moved.old_head;
    END IF;
    IF has_deletes THEN
        DELETE FROM {store}.item USING (
            SELECT DISTINCT ON (each.log COLLATE "C", each.kind COLLATE "C", each.key) each.*
            FROM unnest(row_write, row_log, row_kind, row_key, row_body)
                WITH ORDINALITY AS each (write, log, kind, key, body, place)
            WHERE bases[each.write] IS NOT NULL
            ORDER BY each.log COLLATE "C", each.kind COLLATE "C", each.key, each.place DESC
        ) AS said
        WHERE said.body IS NULL
            AND item.log = said.log AND item.kind = said.kind AND item.key = said.key;
    END IF;
    IF cardinality(row_write) > 0 THEN
        INSERT INTO {store}.item (log, kind, key, body, due_ms)
        SELECT said.log, said.kind, said.key, said.body, said.due_ms FROM (
            SELECT DISTINCT ON (each.log COLLATE "C", each.kind COLLATE "C", each.key) each.*
            FROM unnest(row_write, row_log, row_kind, row_key, row_body, row_due_ms)
                WITH ORDINALITY AS each (write, log, kind, key, body, due_ms, place)
            WHERE bases[each.write] IS NOT NULL
            ORDER BY each.log COLLATE "C", each.kind COLLATE "C", each.key, each.place DESC
        ) AS said WHERE said.body IS NOT NULL
        ON CONFLICT (log, kind, key) DO UPDATE SET body = excluded.body, due_ms = excluded.due_ms;
    END IF;
    -- A log of which this wrote nothing may have nothing.
    FOR i IN 1 .. cardinality(logs) LOOP
        IF heads[i] = 0 AND (has_deletes OR has_refused OR logs[i] <> ALL (row_log)) THEN
            PERFORM {store}.forget_empty(logs, heads);
            EXIT;
        END IF;
    END LOOP;
    RETURN results;
END $$;
