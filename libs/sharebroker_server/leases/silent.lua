-- KEYS members; ARGV ms. Returns the announcements that have not expired and will within so many milliseconds.
local now = now_ms()
local silent = {}
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do
  local expires, announcement = string.match(value, '^(%d+) %S+ (.*)$')
  local left = tonumber(expires) - now
  if left > 0 and left <= tonumber(ARGV[1]) then silent[#silent + 1] = announcement end
end
return silent
