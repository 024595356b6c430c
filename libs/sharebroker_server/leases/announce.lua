-- KEYS members; ARGV node id, owner, ttl in ms, announcement, announcement as dead. Values are
-- "<expires in ms> <owner> <announcement>". Returns 1 if the member had been marked dead, and the time in ms.
local now, was_dead = now_ms(), 0
local known = redis.call('HGETALL', KEYS[1])
for i = 1, #known, 2 do
  local expires, owner, announcement = string.match(known[i + 1], '^(%d+) (%S+) (.*)$')
  if tonumber(expires) <= now then
    redis.call('HDEL', KEYS[1], known[i])
  elseif known[i] == ARGV[1] and succeeds(owner, ARGV[2]) then
    return {0, now}
  elseif announcement == ARGV[5] then
    was_dead = 1
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now + ARGV[3], ARGV[2], ARGV[4]))
return {was_dead, now}
