-- KEYS lease, log; ARGV epoch, first position to keep.
local refusal = fenced(KEYS[1], ARGV[1])
if refusal then return refusal end
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2] .. '-0')
