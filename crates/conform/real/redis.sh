# The port is this shell's own, so that two runs on one machine do not meet, and none that the kernel gives to clients
# (ip_local_port_range: 32768 and above).
port=$((20000 + $$ % 12000))
redis-server --port $port --bind 127.0.0.1 --unixsocket ./sock --save '' \
    --enable-debug-command local --logfile log --dbfilename dump --daemonize no > /dev/null 2>&1 &
server=$!
tries=0
until redis-cli -s ./sock ping > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "no server"; cat log; ps -o pid,stat,wchan,args -p $server; exit 1; }
    sleep 0.1
done
cli() { redis-cli -s ./sock "$@"; }
# Of requests that took less than a millisecond together it says that they were "inf" a second.
bench() { redis-benchmark "$@" -q 2>&1 | tr '\r' '\n' | sed -n 's/: [0-9.inf]* requests per second.*//p'; }
bench -p $port -t set,incr,lpush,rpush,lpop,sadd,hset,zadd,mset -n 240 -c 8 -P 4
bench -s ./sock -t set,lrange_100 -n 60 -c 6 -d 300
cli dbsize
cli debug digest
awk 'BEGIN { for (i = 1; i <= 500; i++) { print "SET k:" i, "v" i * i; print "HSET h:" i % 7, "f" i, i;
    print "ZADD z", i * 37 % 101, "m" i } }' | cli --pipe | tail -1
cli zrange z 10 14 withscores
cli eval 'local s = 0 for i = 1, 20000 do s = (s * 31 + i) % 1000003 end return s' 0
cli set soon gone px 200
sleep 0.3
cli get soon
(cli blpop queue 5; echo popped) > blocked &
waiter=$!
until cli client list | grep -q cmd=blpop; do sleep 0.05; done
cli rpush queue parcel
wait $waiter
cat blocked
# A child saves what the parent had at that moment.
digest=$(cli debug digest)
cli bgsave
until cli info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
cli info persistence | tr -d '\r' | grep -E 'bgsave_status|rdb_saves'
cli debug reload
[ "$digest" = "$(cli debug digest)" ] && echo same
cli shutdown nosave
wait $server
echo "status $?"
rm -f dump log blocked
