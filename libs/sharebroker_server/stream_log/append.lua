-- KEYS lease, log; ARGV epoch, first position, payloads. Every check comes before the first write: all or none.
local refusal = fenced(KEYS[1], ARGV[1])
if refusal then return refusal end
local first = tonumber(ARGV[2])
local last = last_position(KEYS[2])
if last ~= first - 1 then
  return redis.error_reply(string.format('OUTOFORDER the log ends at %.0f, not at %.0f', last, first - 1))
end
for i = 3, #ARGV do
  redis.call('XADD', KEYS[2], string.format('%.0f-0', first + i - 3), 'p', ARGV[i])
end
