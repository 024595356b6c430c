-- KEYS members; ARGV node id, owner, ttl in ms, announcement, how it looks when the member is deposed. Values are
-- "<expires in ms> <owner> <announcement>". Returns whether it had been deposed (1), and the time in ms.
local now, deposed = now_ms(), 0
local known = redis.call('HGETALL', KEYS[1])
for i = 1, #known, 2 do
  local expires, owner, announcement = string.match(known[i + 1], '^(%d+) (%S+) (.*)$')
  if tonumber(expires) <= now then
    redis.call('HDEL', KEYS[1], known[i])
  elseif known[i] == ARGV[1] and succeeds(owner, ARGV[2]) then
    return {0, now}
  elseif announcement == ARGV[5] then
    deposed = 1
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now + ARGV[3], ARGV[2], ARGV[4]))
return {deposed, now}
