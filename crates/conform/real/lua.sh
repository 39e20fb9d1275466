cat > main.lua <<'LUA'
local s = 7
local function random(n) s = s * 16807 % 2147483647; return s % n + 1 end
-- Tables, strings and collection.
setmetatable({}, { __gc = function() print("collected") end })
local sum, live = 0, setmetatable({}, { __mode = "v" })
for i = 1, 60000 do
  local t = { i, tostring(i), { i } }
  if i % 100 == 0 then live[i] = t end
  sum = (sum + #t[2] * random(50)) % 1000003
end
collectgarbage() print("sum", sum, next(live) == nil)
-- Coroutines that take turns.
local function producer(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i * i) end end) end
local a, b, total = producer(5000), producer(4000), 0
for x in a do total = total + x + (b() or 0) if x > 4000 * 4000 - 1 then break end end
print("coroutines", total)
local words = {}
for w in (("the quick brown fox "):rep(400)):gmatch("%a+") do words[w] = (words[w] or 0) + 1 end
local names = {} for w in pairs(words) do names[#names + 1] = w end
table.sort(names) print(table.concat(names, " "), words.fox)
print(pcall(error, { code = 3 }) == false, select("#", string.find("abc", "(b)(c)")), ("%5.2f|%x"):format(math.pi, 255))
local f = assert(io.popen("cat > out; echo status", "w")) f:write(("line\n"):rep(20000)) print(f:close())
local n = 0 for _ in io.lines("out") do n = n + 1 end print("lines", n)
for line in io.popen("seq 3; exit 4"):lines() do io.write(line, " ") end print(os.execute("exit 5"))
local file = io.open("out", "r+") file:seek("set", 100) file:write("HERE") file:seek("end", -5) print(file:read("a")) file:close()
local t = {} for i = 1, 30000 do t[i] = random(1000000) end
table.sort(t) print("sorted", t[1], t[15000], t[30000])
local c = os.clock() while os.clock() - c < 0.4 do s = s end
print(load("return 1 +")) os.exit(6, true)
LUA
lua5.4 main.lua
echo "status $?"
