-- KEYS log, meta, snapshots. Returns the log start, the log end and the snapshots of one moment.
return {
  redis.call('HGET', KEYS[2], 'log_start') or '0', last_position(KEYS[1]), redis.call('HGETALL', KEYS[3])
}
