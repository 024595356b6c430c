#!lua flags=allow-oom
-- Move the log start up and drop what ends below it. KEYS: lease, log, index, meta. ARGV: epoch, log start.
local held = redis.call('HGET', KEYS[1], 'epoch')
if held ~= ARGV[1] then
  return redis.error_reply('FENCED the lease has epoch ' .. tostring(held) .. ', not ' .. ARGV[1])
end
if tonumber(redis.call('HGET', KEYS[4], 'log_start') or 0) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[4], 'log_start', ARGV[2])
  -- An entry whose id equals the log start ends right below it.
  redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2] .. '-1')
  redis.call('XTRIM', KEYS[3], 'MINID', ARGV[2] .. '-1')
end
return redis.status_reply('OK')
