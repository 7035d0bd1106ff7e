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
 * The record is a hash: `format`, `token`, `sealed`, while `token` is a reader's also `writer` (the last writer's token,
 * a space, and 1 where it is sealed, else 0), and a field `w:<client>` for each client that may send a script again
 * after it reconnected: `<token>;<first>;<last>`, the numbers of its runs that were carried out. It numbers its scripts
 * in the order in which it sends them, `<client>;<number>;<before>`, and names the one that it sent before on this
 * record: what is not above `last` is a copy. `first` is where the row without a gap begins, under whatever tokens. In a
 * gap there are runs that were refused (no memory, no script, an older token), and a copy of one of them is unknown.
 * Where redirections may change the order (`before` is 0), only the last one is known by its number. `forgot` is set
 * once such a field was removed: a client without one may have had one. Runs without commands need none.
 */
export const SCRIPT = `
local record, verb, token = KEYS[1], ARGV[1], ARGV[2]
local client, number, before
if verb == 'apply' and ARGV[3] ~= '' then client, number, before = string.match(ARGV[3], '^(.+);(%d+);(%d+)$') end
local held = redis.call('HMGET', record, 'token', 'sealed', 'format', client and 'w:' .. client or 'w', 'forgot', 'writer')

local theirs, first, last
if client and held[4] then
  theirs, first, last = string.match(held[4], '^(.+);(%d+);(%d+)$')
  if tonumber(number) <= tonumber(last) then
    if tonumber(number) < tonumber(first) then return {'over'} end
    -- Written again unchanged, so that a WAIT after it has something to wait for.
    redis.call('HSET', record, 'w:' .. client, held[4])
    return {'repeated'}
  end
end

local current, sealed, writer = held[1] or '', held[2] or '0', held[6] or ''

local function isShared(text) return string.sub(text, -7) == ':shared' end

-- Revisions have 64 bits and Lua's numbers 53: compare the lengths, then 15 digits at a time.
local function compareRevisions(a, b)
  if #a ~= #b then return #a < #b and -1 or 1 end
  for from = 1, #a, 15 do
    local x, y = tonumber(string.sub(a, from, from + 14)), tonumber(string.sub(b, from, from + 14))
    if x ~= y then return x < y and -1 or 1 end
  end
  return 0
end

-- How the token presented stands to another one, and whether both are of one grant.
local function compare(other)
  if other == '' then return 'above' end
  if other == token then return 'same' end
  local lineage, revision, acquisition = string.match(token, '^([^:]+):(%d+):([^:]+)')
  local theirLineage, theirRevision, theirAcquisition = string.match(other, '^([^:]+):(%d+):([^:]+)')
  if lineage ~= theirLineage then return 'foreign-lineage' end
  local sign = compareRevisions(revision, theirRevision)
  if sign ~= 0 then return sign < 0 and 'stale-token' or 'above' end
  if acquisition ~= theirAcquisition then return 'conflicting-token' end
  return isShared(token) and 'above' or 'stale-token', true
end

-- decideGuard: 'keep' the state or 'advance' it, else why the token is refused, and by which token.
local function decide()
  local mark, markSealed = current, sealed
  local order, isOneGrant = compare(current)
  local isBeside = order == 'stale-token' and isShared(token) and isShared(current)
  if isBeside then
    mark, markSealed = string.match(writer, '^(.+) (.)$')
    mark = mark or ''
    order, isOneGrant = compare(mark)
  end
  if verb == 'seal' and order == 'stale-token' then return 'keep' end
  if verb ~= 'seal' and markSealed == '1' and (order == 'same' or order == 'above' and isOneGrant) then
    return 'sealed', mark
  end
  if order == 'above' then return isBeside and 'keep' or 'advance' end
  if order == 'same' then return verb == 'seal' and 'advance' or 'keep' end
  return order, mark
end

if verb == 'apply' and (current == token and sealed == '0' or held[3] == '1' and decide() == 'keep') then
  if client and (held[4] or ARGV[4]) then
    if last ~= before then first = number end
    -- First, so that a refusal to write (memory, rights, a replica) comes before anything is applied.
    redis.call('HSET', record, 'w:' .. client, token .. ';' .. first .. ';' .. number)
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
      if client then
        redis.call('HSET', record, 'w:' .. client, token .. ';' .. string.format('%.0f', number + 1) .. ';' .. number)
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
if verb == 'inspect' then return {'state', current, sealed, writer} end

-- Written again unchanged, so that a WAIT after it has something to wait for.
local function keep()
  redis.call('HSET', record, 'token', current)
  return {'ok'}
end

local function put(seal, writerNow)
  if writerNow == writer then redis.call('HSET', record, 'token', token, 'sealed', seal)
  else redis.call('HSET', record, 'token', token, 'sealed', seal, 'writer', writerNow) end
  -- Clients of tokens before the one that is superseded now: nothing of theirs can pass any more. Readers do not
  -- supersede each other.
  local fields = redis.pcall('HLEN', record)
  if type(fields) ~= 'number' or fields <= 68 then return {'ok'} end
  local all = redis.pcall('HGETALL', record)
  for at = 1, #all, 2 do
    local old = string.sub(all[at], 1, 2) == 'w:' and string.match(all[at + 1], '^[^;]+')
    if old and old ~= current and old ~= token and not (isShared(old) and isShared(token)) then
      redis.pcall('HSET', record, 'forgot', '1')
      redis.pcall('HDEL', record, all[at])
    end
  end
  return {'ok'}
end

if verb == 'rebase' then
  if current == token then return keep() end
  if current ~= ARGV[4] then return {'not-confirmed', current} end
  return put('0', '')
end

local verdict, mark = decide()
if verdict == 'keep' then return verb == 'claim' and keep() or {'ok'} end
if verdict ~= 'advance' then return {verdict, mark, client and not held[4] and held[5] or ''} end
if verb == 'apply' or (verb == 'enter' and ARGV[4] == '1') then
  if client and held[4] then
    redis.call('HSET', record, 'w:' .. client, theirs .. ';' .. string.format('%.0f', number + 1) .. ';' .. number)
  end
  return {'unclaimed', current}
end
local seal = verb == 'seal' and '1' or '0'
if current == token then return put(seal, writer) end
if not isShared(token) then return put(seal, '') end
return put(seal, (current == '' or isShared(current)) and writer or current .. ' ' .. sealed)
`;

/** The name under which Redis keeps the script. */
export const SCRIPT_SHA = createHash('sha1').update(SCRIPT).digest('hex');
