-- KEYS members; ARGV node id, owner, ms, announcement as dead, ttl in ms. Replaces the announcement if it expires
-- within the given milliseconds; returns 1 if it did.
local now = now_ms()
local expires, owner = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%S+)')
local remaining = tonumber(expires or 0) - now
if owner ~= ARGV[2] or remaining <= 0 or remaining > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now + ARGV[5], owner, ARGV[4]))
return 1
