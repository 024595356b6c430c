-- KEYS generation; ARGV digest. Returns the generation; increases it if the digest changed.
if redis.call('HGET', KEYS[1], 'digest') == ARGV[1] then
  return tonumber(redis.call('HGET', KEYS[1], 'number'))
end
redis.call('HSET', KEYS[1], 'digest', ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'number', 1)
