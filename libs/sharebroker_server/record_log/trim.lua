-- KEYS lease, log, index, meta, snapshots; ARGV epoch, log start, then names of producer snapshots. An entry whose id
-- equals the log start ends right below it.
local refusal = fenced(KEYS[1], ARGV[1])
if refusal then return refusal end
if tonumber(redis.call('HGET', KEYS[4], 'log_start') or 0) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[4], 'log_start', ARGV[2])
  redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2] .. '-1')
  redis.call('XTRIM', KEYS[3], 'MINID', ARGV[2] .. '-1')
end
for i = 3, #ARGV do
  redis.call('HDEL', KEYS[5], ARGV[i])
end
