-- Whether an owner "node/incarnation" is a later incarnation of the node of an earlier one (placement.succeeds).
local function succeeds(owner, earlier)
  local node, incarnation = string.match(owner, '^(.*)/(%d+)$')
  local earlier_node, earlier_incarnation = string.match(earlier, '^(.*)/(%d+)$')
  return node == earlier_node and tonumber(incarnation) > tonumber(earlier_incarnation)
end
