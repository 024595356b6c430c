-- KEYS members. Returns the announcements that have not expired.
local now = now_ms()
local live = {}
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do
  local expires, announcement = string.match(value, '^(%d+) %S+ (.*)$')
  if tonumber(expires) > now then live[#live + 1] = announcement end
end
return live
