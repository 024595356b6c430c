#!lua
-- Append batches and index rows in one step, if the caller's epoch is the lease's.
-- KEYS: lease, log, index. ARGV: epoch, base offset of the first batch, number of batches,
-- then id and bytes of each batch, then id, base offset, size and newest time of each row.
local held = redis.call('HGET', KEYS[1], 'epoch')
if held ~= ARGV[1] then
  return redis.error_reply('FENCED the lease has epoch ' .. tostring(held) .. ', not ' .. ARGV[1])
end
-- An id is a last offset plus one, so anything above the base offset would overlap.
if #redis.call('XRANGE', KEYS[2], '(' .. ARGV[2] .. '-0', '+', 'COUNT', 1) > 0 then
  return redis.error_reply('STALE the log ends above offset ' .. ARGV[2])
end
local rows = 4 + 2 * ARGV[3]
for i = 4, rows - 1, 2 do
  redis.call('XADD', KEYS[2], ARGV[i], 'b', ARGV[i + 1])
end
for i = rows, #ARGV, 4 do
  redis.call('XADD', KEYS[3], ARGV[i], 'o', ARGV[i + 1], 's', ARGV[i + 2], 't', ARGV[i + 3])
end
return redis.status_reply('OK')
