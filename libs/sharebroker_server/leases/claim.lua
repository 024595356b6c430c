-- KEYS lease; ARGV owner, ttl in ms, how much to raise the epoch of an own lease. Returns owner, epoch, remaining ms.
local now = now_ms()
local lease = stored(KEYS[1], now)
if not lease.live or succeeds(ARGV[1], lease.owner) then
  lease.epoch = lease.epoch + 1
elseif lease.owner == ARGV[1] then
  lease.epoch = lease.epoch + tonumber(ARGV[3])
else
  return {lease.owner, lease.epoch, lease.expires - now}
end
local epoch, expires = string.format('%.0f', lease.epoch), string.format('%.0f', now + ARGV[2])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', epoch, 'expires_ms', expires)
return {ARGV[1], lease.epoch, tonumber(ARGV[2])}
