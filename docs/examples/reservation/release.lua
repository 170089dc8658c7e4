-- KEYS: [1]=minute_key, [2]=daily_key
-- ARGV: [1]=request_id
-- Gives how many places were given back: 1, or 0 if the request has none.
local removed = redis.call('ZREM', KEYS[1], ARGV[1])
if removed > 0 then
  local current = tonumber(redis.call('GET', KEYS[2]) or '0')
  if current > 0 then
    redis.call('DECR', KEYS[2])
  end
end
return removed
