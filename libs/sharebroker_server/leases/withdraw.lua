-- KEYS members; ARGV node id, owner.
local value = redis.call('HGET', KEYS[1], ARGV[1])
if value and string.match(value, '^%d+ (%S+)') == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
