"""Lua scripts of the Redis ledger: each does one write, or one read of several keys, as one."""

from __future__ import annotations

from contextrelay.store.redis.index import REFUSE_LATE

STALE = 1
LOCKED = -2

# After REFUSE_LATE. The last two of ARGV: the field of the lock in the last of KEYS, or nothing on
# a cluster; and the value that it has to have. Before them index entries, as store/redis/index.py
# writes them on a cluster, where they are on other nodes: shard and name of each, then their stamp
# and their number.
REFUSE_LOCKED = f"""
local field = ARGV[#ARGV - 1]
if field ~= '' and (redis.call('HGET', KEYS[#KEYS], field) or ':') ~= ARGV[#ARGV] then
  return {{{LOCKED}, 0}}
end
local stamp, names = ARGV[#ARGV - 3], tonumber(ARGV[#ARGV - 2])
for i = #ARGV - 3 - 2 * names, #ARGV - 4, 2 do
  redis.call('ZADD', ARGV[i] .. ':t', 'GT', stamp, ARGV[i + 1])
  redis.call('ZADD', ARGV[i], 0, ARGV[i + 1])
end
"""

# Around a script that is sent again until it is confirmed. The first of KEYS is made for one write:
# it holds the answer, so that a second time it is not done again. It is written either way, so that
# WAIT, which is for the writes of its connection, covers what was done before.
GUARD_MS = 60_000
GUARD = f"""
local guard = table.remove(KEYS, 1)
local done = redis.call('GET', guard)
if done then
  redis.call('SET', guard, done, 'PX', {GUARD_MS})
  return cjson.decode(done)
end
local answer = (function()
%s
end)()
if type(answer[1]) ~= 'number' or answer[1] >= 0 then
  redis.call('SET', guard, cjson.encode(answer), 'PX', {GUARD_MS})
end
return answer
"""

# KEYS: h f r k of each write's log. ARGV: the deadline, the channel, the number of writes; then for
# each: log, expect or '', the SHA-1 of its newest fact or '', the numbers of facts and rows, facts,
# and field and value of each row, where '' deletes. It calls once a row and unpacks nothing: Lua's
# stack ends near 8,000 values.
WRITE = f"""{REFUSE_LATE}{REFUSE_LOCKED}
local at, key = 3, 0
local function arg() at = at + 1 return ARGV[at] end
local answer = {{0}}
for _ = 1, tonumber(ARGV[3]) do
  local h, f, r, k = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], KEYS[key + 4]
  key = key + 4
  local log, expect, after, facts, rows = arg(), arg(), arg(), tonumber(arg()), tonumber(arg())
  local head = tonumber(redis.call('GET', h) or 0)
  local newest = after ~= '' and redis.call('XREVRANGE', f, '+', '-', 'COUNT', 1)[1]
  local is_other = newest and redis.sha1hex(newest[2][2]) ~= after
  if is_other or expect ~= '' and tonumber(expect) ~= head then
    answer[1] = {STALE}
    answer[#answer + 1] = head
    return answer
  end
  for _ = 1, facts do
    head = head + 1
    redis.call('XADD', f, string.format('%d-1', head), 'b', arg())
  end
  if facts > 0 then
    redis.call('SET', h, string.format('%d', head))
  end
  for _ = 1, rows do
    local field, value = arg(), arg()
    if value == '' then
      redis.call('HDEL', r, field)
      redis.call('ZREM', k, field)
    elseif redis.call('HSET', r, field, value) == 1 then
      redis.call('ZADD', k, 0, field)
    end
  end
  if facts > 0 then
    redis.call('PUBLISH', ARGV[2], log)
  end
  answer[#answer + 1] = head
end
return answer
"""

# KEYS: h f. ARGV: the deadline, the first seq to keep.
TRIM = f"""{REFUSE_LATE}{REFUSE_LOCKED}
local before = tonumber(ARGV[2])
redis.call('XTRIM', KEYS[2], 'MINID', '=', string.format('%d-0', before))
if tonumber(redis.call('GET', KEYS[1]) or 0) < before - 1 then
  redis.call('SET', KEYS[1], string.format('%d', before - 1))
end
return {{0}}
"""

# KEYS: h f r k. ARGV: the deadline, the expected head.
DROP = f"""{REFUSE_LATE}{REFUSE_LOCKED}
local head = tonumber(redis.call('GET', KEYS[1]) or 0)
if head == tonumber(ARGV[2]) then redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4]) end
return {{0, head}}
"""

# KEYS: r of the log with the lock. ARGV: its field, the value that it has to have, the new one.
# Answers whether it is the new one: also where this was sent twice, and then it is written again.
SWAP_LOCK = """
local value = redis.call('HGET', KEYS[1], ARGV[1]) or ':'
if value ~= ARGV[2] and value ~= ARGV[3] then return 0 end
if ARGV[3] == ':' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
"""

# KEYS: r k. ARGV: two bounds, how many. Answers field, value, field, value ...
ROWS = """
local fields = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local answer = {}
for _, field in ipairs(fields) do
  answer[#answer + 1] = field
  answer[#answer + 1] = redis.call('HGET', KEYS[1], field)
end
return answer
"""

# KEYS: k. From the first field of one kind it jumps behind its last: NUL is the least byte.
KINDS = """
local answer, low = {}, '-'
while true do
  local field = redis.call('ZRANGEBYLEX', KEYS[1], low, '+', 'LIMIT', 0, 1)[1]
  if not field then return answer end
  local kind = string.sub(field, 1, string.find(field, '%z') - 1)
  answer[#answer + 1] = kind
  low = '[' .. kind .. string.char(1)
end
"""

# KEYS: the hash. ARGV: counter, amount, counter, amount ...
TALLY = """
for i = 1, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
return redis.call('HGETALL', KEYS[1])
"""
