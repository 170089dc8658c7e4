-- KEYS: [1]=minute_key, [2]=daily_key
-- ARGV: [1]=now, [2]=request_id, [3]=per_minute, [4]=daily_limit, [5]=daily_ttl
-- Gives {0, request_id} for a place, {1, seconds to wait}, or {2, 'daily'}.
local now = tonumber(ARGV[1])

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 60)

local daily_count = tonumber(redis.call('GET', KEYS[2]) or '0')
if daily_count >= tonumber(ARGV[4]) then
  return {2, 'daily'}
end

local minute_count = redis.call('ZCARD', KEYS[1])
if minute_count >= tonumber(ARGV[3]) then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {1, math.ceil(tonumber(oldest[2]) + 60 - now)}
end

redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('EXPIRE', KEYS[1], 90)
redis.call('INCR', KEYS[2])
if redis.call('TTL', KEYS[2]) < 0 then
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
return {0, ARGV[2]}
