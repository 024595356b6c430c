-- Nil for the epoch of the lease, an error for any other: a lost lease table fences too.
local function fenced(lease, epoch)
  local current = redis.call('HGET', lease, 'epoch') or '0'
  if current ~= epoch then return redis.error_reply('FENCED epoch ' .. epoch .. ', the lease has ' .. current) end
end
