// The one script that every verb sends: Redis runs it alone, so what it checks still holds for what it writes.
import { createHash } from 'node:crypto';

/**
 * KEYS: the guard's record, then the keys of the effect's commands, so that a cluster knows them.
 * ARGV: the verb, the token as text, then by verb:
 * - `apply`: the run's number (below), then each command: how many words it has, and its words. `3:2,4` stands for
 *   three words of which the second and the fourth come from KEYS;
 * - others: `create` where a missing record is to be created; then for `enter` `1` where the token has to have
 *   claimed, for `rebase` the confirmed token.
 *
 * The record is a hash: `format`, `token`, `sealed`, and a field `w:<writer>` for each client that may send a
 * script again after it reconnected: `<token>;<first>;<last>`, the numbers of its runs that were carried out. It
 * numbers its scripts in the order in which it sends them, `<writer>;<number>;<before>`, and names the one that it
 * sent before on this record: what is not above `last` is a copy. `first` is where the row without a gap begins. In a
 * gap there are runs that were refused (no memory, no script, an older token), and a copy of one of them is unknown.
 * Where redirections may change the order (`before` is 0), only the last one is known by its number. `forgot` is set
 * once such a field was removed: a writer without one may have had one.
 */
export const SCRIPT = `
local record, verb, token = KEYS[1], ARGV[1], ARGV[2]
local writer, number, before
if verb == 'apply' and ARGV[3] ~= '' then writer, number, before = string.match(ARGV[3], '^(.+);(%d+);(%d+)$') end
local held = redis.call('HMGET', record, 'token', 'sealed', 'format', writer and 'w:' .. writer or 'w', 'forgot')

local theirs, first, last
if writer and held[4] then
  theirs, first, last = string.match(held[4], '^(.+);(%d+);(%d+)$')
  if tonumber(number) <= tonumber(last) then
    if tonumber(number) < tonumber(first) then return {'over'} end
    -- Written again unchanged, so that a WAIT after it has something to wait for.
    redis.call('HSET', record, 'w:' .. writer, held[4])
    return {'repeated'}
  end
end

if verb == 'apply' and held[1] == token and held[2] == '0' then
  if writer then
    if theirs ~= token or last ~= before then first = number end
    -- First, so that a refusal to write (memory, rights, a replica) comes before anything is applied.
    redis.call('HSET', record, 'w:' .. writer, token .. ';' .. first .. ';' .. number)
  end
  local replies, at, key = {'ok'}, 4, 2
  while ARGV[at] do
    local count, reply = tonumber(ARGV[at])
    if count then
      reply = redis.pcall(unpack(ARGV, at + 1, at + count))
    else
      local words, places = string.match(ARGV[at], '^(%d+):(.*)$')
      count = tonumber(words)
      local command = {unpack(ARGV, at + 1, at + count)}
      for place in string.gmatch(places, '%d+') do
        command[tonumber(place)] = KEYS[key]
        key = key + 1
      end
      reply = redis.pcall(unpack(command))
    end
    if type(reply) == 'table' and reply.err then
      -- Not among those that were carried out: a copy of it is unknown, and so are those before it.
      if writer then
        redis.call('HSET', record, 'w:' .. writer, token .. ';' .. string.format('%.0f', number + 1) .. ';' .. number)
      end
      return {'failed', #replies - 1, reply.err}
    end
    replies[#replies + 1] = reply
    at = at + 1 + count
  end
  return replies
end

if held[3] ~= '1' then
  if held[3] or redis.call('EXISTS', record) == 1 then return {'format', held[3] or ''} end
  if verb ~= 'create' and (ARGV[3] ~= 'create' or verb == 'inspect') then return {'missing'} end
  redis.call('HSET', record, 'format', '1')
  if verb == 'create' then return {'created'} end
elseif verb == 'create' then
  return {'existed'}
end
local current, sealed = held[1] or '', held[2]
if verb == 'inspect' then return {'state', current, sealed or '0'} end

local theirLineage, theirRevision = string.match(current, '^([^:]+):(%d+):')
local lineage, revisionNow = string.match(token, '^([^:]+):(%d+):')

local function put(seal)
  redis.call('HSET', record, 'token', token, 'sealed', seal)
  -- Writers of tokens before the one that is superseded now: nothing of theirs can pass any more.
  local fields = redis.pcall('HLEN', record)
  if type(fields) ~= 'number' or fields <= 67 then return {'ok'} end
  local all = redis.pcall('HGETALL', record)
  for at = 1, #all, 2 do
    local old = string.sub(all[at], 1, 2) == 'w:' and string.match(all[at + 1], '^[^;]+')
    if old and old ~= current and old ~= token then
      redis.pcall('HSET', record, 'forgot', '1')
      redis.pcall('HDEL', record, all[at])
    end
  end
  return {'ok'}
end

if verb == 'rebase' then
  if current == token then return put(sealed) end
  if current ~= ARGV[4] then return {'not-confirmed', current} end
  return put('0')
end

-- Revisions have 64 bits and Lua's numbers 53: compare the lengths, then 15 digits at a time.
local function compare(a, b)
  if #a ~= #b then return #a < #b and -1 or 1 end
  for from = 1, #a, 15 do
    local x, y = tonumber(string.sub(a, from, from + 14)), tonumber(string.sub(b, from, from + 14))
    if x ~= y then return x < y and -1 or 1 end
  end
  return 0
end

local order = 'above'
if current == token then
  order = 'same'
elseif theirLineage then
  local sign = compare(revisionNow, theirRevision)
  if lineage ~= theirLineage then order = 'foreign-lineage'
  elseif sign < 0 then order = 'stale-token'
  elseif sign == 0 then order = 'conflicting-token' end
end

if verb == 'seal' and order == 'stale-token' then return {'ok'} end
local forgotten = writer and not held[4] and held[5] or ''
if order ~= 'above' and order ~= 'same' then return {order, current, forgotten} end
if verb == 'seal' then return put('1') end
if order == 'same' then
  if sealed == '1' then return {'sealed', current, forgotten} end
  -- Written again unchanged, so that a WAIT after it has something to wait for.
  return verb == 'claim' and put('0') or {'ok'}
end
if verb == 'apply' or (verb == 'enter' and ARGV[4] == '1') then
  if writer and held[4] then
    redis.call('HSET', record, 'w:' .. writer, theirs .. ';' .. string.format('%.0f', number + 1) .. ';' .. number)
  end
  return {'unclaimed', current}
end
return put('0')
`;

/** The name under which Redis keeps the script. */
export const SCRIPT_SHA = createHash('sha1').update(SCRIPT).digest('hex');
