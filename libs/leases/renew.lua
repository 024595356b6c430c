-- KEYS lease; ARGV owner, ttl in ms. Returns 1 when it was still the owner's.
local now = now_ms()
if stored(KEYS[1], now).owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'expires_ms', string.format('%.0f', now + ARGV[2]))
return 1
