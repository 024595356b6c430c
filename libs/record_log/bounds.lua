#!lua flags=no-writes
-- Log start, and the id of the last append even when nothing is left of the log. KEYS: log, meta.
local log_start = redis.call('HGET', KEYS[2], 'log_start') or '0'
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { log_start, log_start .. '-0' }
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then
    return { log_start, info[i + 1] }
  end
end
