-- Commits that add to counters: in the same transaction, and once.

-- As commit_writes, which it calls; then add the amounts of the callers whose writes were applied by
-- this call. If a counter that grows exceeds its maximum, nothing of the call is applied, and the
-- error has the code RC001.
CREATE FUNCTION {store}.commit_and_count(
    token bytea,
    channel text,
    logs text[],
    write_caller int[],
    write_log int[],
    write_expect bigint[],
    write_facts int[],
    fact_write int[],
    fact_log text[],
    fact_offset int[],
    fact_body bytea[],
    row_write int[],
    row_log text[],
    row_kind text[],
    row_key bytea[],
    row_body bytea[],
    row_due_ms bigint[],
    caller_id bytea[],
    add_caller int[],
    add_name text[],
    add_field text[],
    add_amount bigint[],
    add_max bigint[] -- NULL for any total.
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    results bigint[];
    callers int[];
    added record;
    total bigint;
BEGIN
    results := {store}.commit_writes(token, channel, logs, write_caller, write_log, write_expect,
        write_facts, fact_write, fact_log, fact_offset, fact_body, row_write, row_log, row_kind,
        row_key, row_body, row_due_ms, caller_id);
    IF results IS NULL THEN
        RETURN NULL;
    END IF;
    -- A commit that is sent again has its id with a plus already.
    WITH said AS (
        SELECT new.caller, caller_id[new.caller + 1] || '+'::bytea AS id
        FROM unnest(write_caller, results) AS new (caller, head)
        WHERE new.caller = ANY (add_caller)
        GROUP BY new.caller HAVING min(coalesce(new.head, -1)) >= 0
    ), first AS (
        INSERT INTO {store}.applied (id, heads, at_ms) SELECT said.id, '{}', {store}.now_ms() FROM said
        ON CONFLICT (id) DO NOTHING RETURNING id
    )
    SELECT array_agg(said.caller) INTO callers FROM said JOIN first ON first.id = said.id;
    -- The same order everywhere, so that two writers cannot deadlock.
    FOR added IN
        SELECT new.* FROM unnest(add_caller, add_name, add_field, add_amount, add_max)
            AS new (caller, name, field, amount, total_max)
        WHERE new.caller = ANY (callers)
        ORDER BY new.name COLLATE "C", new.field COLLATE "C"
    LOOP
        INSERT INTO {store}.tally AS old (name, field, amount)
        VALUES (added.name, added.field, added.amount)
        ON CONFLICT (name, field) DO UPDATE SET amount = old.amount + excluded.amount
        RETURNING amount INTO total;
        IF added.amount > 0 AND total > added.total_max THEN
            RAISE EXCEPTION 'a counter would exceed its maximum' USING ERRCODE = 'RC001';
        END IF;
    END LOOP;
    RETURN results;
END $$;
