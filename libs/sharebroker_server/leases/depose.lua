-- KEYS members; ARGV node id, owner, ms, announcement, ttl in ms. Replaces the owner's announcement if it has so many
-- milliseconds left at most; returns 1 if so.
local now = now_ms()
local expires, owner = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%S+)')
local left = tonumber(expires or 0) - now
if owner ~= ARGV[2] or left <= 0 or left > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now + ARGV[5], owner, ARGV[4]))
return 1
