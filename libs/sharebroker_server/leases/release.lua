-- KEYS lease; ARGV owner. Releases the lease; the epoch stays.
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'owner', '', 'expires_ms', '0')
end
