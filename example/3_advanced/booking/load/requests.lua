-- Requests of buyers, for wrk. Most of them hold a seat, and some buy it. Each has another owner.
-- usage: wrk -s requests.lua URL -- SEATS SEED
-- The last line of the output is JSON: answers by kind, and the latencies as {microseconds:count}.
local threads = {}

function setup(thread)
   table.insert(threads, thread)
end

function init(args)
   seats = tonumber(args[1])
   seed = tonumber(args[2])
   math.randomseed(seed)
   sent = 0
   ok, taken, busy, unavailable, other = 0, 0, 0, 0, 0
end

function request()
   sent = sent + 1
   local action = "hold"
   if math.random(20) == 1 then action = "buy" end
   local path = string.format("/seats/%d/%s", math.random(seats), action)
   local body = string.format('{"owner":"buyer-%d-%d"}', seed, sent)
   return wrk.format("POST", path, {["Content-Type"] = "application/json"}, body)
end

function response(status)
   if status == 200 then ok = ok + 1
   elseif status == 409 then taken = taken + 1
   elseif status == 504 then busy = busy + 1
   elseif status == 503 then unavailable = unavailable + 1
   else other = other + 1
   end
end

function done(summary, latency)
   local sum = {}
   for _, name in ipairs({"ok", "taken", "busy", "unavailable", "other"}) do
      sum[name] = 0
      for _, thread in ipairs(threads) do sum[name] = sum[name] + thread:get(name) end
   end
   local e = summary.errors
   local broken = e.connect + e.read + e.write + e.timeout
   local values = {}
   for i = 1, #latency do
      local value, count = latency(i)
      table.insert(values, string.format('"%d":%d', value, count))
   end
   print(string.format('{"ok":%d,"taken":%d,"busy":%d,"unavailable":%d,"other":%d,"broken":%d,' ..
                          '"seconds":%.3f,"latencies":{%s}}',
                       sum.ok, sum.taken, sum.busy, sum.unavailable, sum.other, broken,
                       summary.duration / 1e6, table.concat(values, ",")))
end
