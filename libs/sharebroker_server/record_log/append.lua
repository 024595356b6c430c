-- KEYS lease, log, index, snapshots; ARGV epoch, base offset of the first batch, number of batches, number of index rows,
-- then id and bytes of each batch, then id, base offset, size and newest timestamp of each row, then name and bytes of
-- each producer snapshot. Every check precedes the first write.
local refusal = fenced(KEYS[1], ARGV[1])
if refusal then return refusal end
-- An id is a last offset plus one: an entry above the base offset would overlap. This query finds nothing and copies
-- nothing, whereas a query for the newest entry would copy a batch.
local log, base = KEYS[2], ARGV[2]
if #redis.call('XRANGE', log, '(' .. base .. '-0', '+', 'COUNT', 1) > 0
  or redis.call('XLEN', log) == 0 and last_position(log) > tonumber(base) then
  return redis.error_reply('OUTOFORDER the log ends above offset ' .. base)
end
local rows = 5 + 2 * ARGV[3]
local snapshots = rows + 4 * ARGV[4]
for i = 5, rows - 1, 2 do
  redis.call('XADD', log, ARGV[i], 'b', ARGV[i + 1])
end
for i = rows, snapshots - 1, 4 do
  redis.call('XADD', KEYS[3], ARGV[i], 'o', ARGV[i + 1], 's', ARGV[i + 2], 't', ARGV[i + 3])
end
for i = snapshots, #ARGV, 2 do
  redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
end
