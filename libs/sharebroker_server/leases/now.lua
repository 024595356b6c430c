-- The clock of Redis in milliseconds, and the lease in a hash by that clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function stored(key, now)
  local fields = redis.call('HMGET', key, 'owner', 'epoch', 'expires_ms')
  local lease = {owner = fields[1] or '', epoch = tonumber(fields[2] or 0), expires = tonumber(fields[3] or 0)}
  lease.live = lease.owner ~= '' and lease.expires > now
  return lease
end
