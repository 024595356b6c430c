-- KEYS lease. Returns owner, epoch, ms left, or nil when nobody holds it.
local now = now_ms()
local lease = stored(KEYS[1], now)
if not lease.live then return nil end
return {lease.owner, lease.epoch, lease.expires - now}
