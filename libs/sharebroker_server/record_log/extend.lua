-- KEYS lease, log; ARGV epoch, log end. The log ends there afterwards, without a batch for the offsets up to it.
local refusal = fenced(KEYS[1], ARGV[1])
if refusal then return refusal end
if last_position(KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('XADD', KEYS[2], ARGV[2] .. '-0', 'b', '')
  redis.call('XDEL', KEYS[2], ARGV[2] .. '-0')
end
