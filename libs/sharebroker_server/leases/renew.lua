-- KEYS lease; ARGV owner, epoch, ttl in ms. Returns 1 if the owner still held it at this epoch.
local now = now_ms()
local lease = stored(KEYS[1], now)
if lease.owner ~= ARGV[1] or lease.epoch ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'expires_ms', string.format('%.0f', now + ARGV[3]))
return 1
