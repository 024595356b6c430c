-- KEYS lease. Returns owner, epoch, remaining ms, or nil for a free or expired lease.
local now = now_ms()
local lease = stored(KEYS[1], now)
if not lease.live then return nil end
return {lease.owner, lease.epoch, lease.expires - now}
