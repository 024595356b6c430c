-- KEYS lease, log, index, meta, snapshots; ARGV epoch, id of an archive. The field `import` of meta has the id of the
-- archive from which the log is imported. Returns 1 if it is this one afterwards, and 0 for a log without such an id.
local refusal = fenced(KEYS[1], ARGV[1])
if refusal then return refusal end
local imported = redis.call('HGET', KEYS[4], 'import')
if imported == ARGV[2] then return 1 end
if imported then
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
elseif last_position(KEYS[2]) > 0 then
  return 0
end
redis.call('HSET', KEYS[4], 'import', ARGV[2])
return 1
