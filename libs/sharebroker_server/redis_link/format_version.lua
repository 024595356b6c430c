-- KEYS format version, lease and log of the catalog; ARGV current version and its release, first version and its
-- release. Stores the current version, or the first one if the cluster has data; returns the stored fields.
if redis.call('EXISTS', KEYS[1]) == 0 then
  local first = 1
  if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then first = 3 end
  redis.call('HSET', KEYS[1], 'version', ARGV[first], 'release', ARGV[first + 1])
end
return redis.call('HMGET', KEYS[1], 'version', 'release')
