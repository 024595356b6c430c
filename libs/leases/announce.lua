-- KEYS members; ARGV node id, owner, ttl in ms, announcement. Values are "<expires in ms> <owner> <announcement>".
local now = now_ms()
local known = redis.call('HGETALL', KEYS[1])
for i = 1, #known, 2 do
  local expires, owner = string.match(known[i + 1], '^(%d+) (%S+)')
  if tonumber(expires) <= now then
    redis.call('HDEL', KEYS[1], known[i])
  elseif known[i] == ARGV[1] and succeeds(owner, ARGV[2]) then
    return
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now + ARGV[3], ARGV[2], ARGV[4]))
