-- Position of the last entry ever added, also right after all were trimmed. Reading the newest
-- entry is cheaper than XINFO, which returns the oldest entry as well.
local function last_position(log)
  local newest = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if newest then return tonumber(string.match(newest[1], '^%d+')) end
  if redis.call('EXISTS', log) == 0 then return 0 end
  local info = redis.call('XINFO', 'STREAM', log)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return tonumber(string.match(info[i + 1], '^%d+')) end
  end
end
