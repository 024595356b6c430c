-- KEYS log, meta.
return { redis.call('HGET', KEYS[2], 'log_start') or '0', last_position(KEYS[1]) }
