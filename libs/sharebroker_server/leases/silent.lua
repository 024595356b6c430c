-- KEYS members; ARGV ms. Returns the announcements that expire within the given milliseconds.
local now = now_ms()
local silent = {}
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do
  local expires, announcement = string.match(value, '^(%d+) %S+ (.*)$')
  local remaining = tonumber(expires) - now
  if remaining > 0 and remaining <= tonumber(ARGV[1]) then silent[#silent + 1] = announcement end
end
return silent
