exec python3 -c '
import threading, queue, time, hashlib, concurrent.futures as cf
q, out, lock, total = queue.Queue(), [], threading.Lock(), 0
def work():
    global total
    while True:
        n = q.get()
        if n is None:
            return
        h = hashlib.sha256(bytes([n % 256]) * 20000).hexdigest()
        if n % 10 == 0:
            time.sleep(0.01)
        with lock:
            out.append((n, h)); total += n
ts = [threading.Thread(target=work) for _ in range(6)]
for t in ts: t.start()
for n in range(300): q.put(n)
for t in ts: q.put(None)
for t in ts: t.join()
print(total, len(out), hashlib.sha256(repr(sorted(out)).encode()).hexdigest())
with cf.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(lambda n: sum(i * i for i in range(n)), range(0, 40000, 400))))
e = threading.Event()
timer = threading.Timer(0.15, e.set); timer.start()
print("event", e.wait(20), e.is_set())
c, turns = threading.Condition(), []
def turn(i):
    for k in range(10):
        with c:
            c.wait_for(lambda: len(turns) % 3 == i)
            turns.append(i); c.notify_all()
ts = [threading.Thread(target=turn, args=(i,)) for i in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
print(turns)
local = threading.local(); local.x = 1
def see(): print("local", hasattr(local, "x"), threading.current_thread().name)
t = threading.Thread(target=see, name="seer"); t.start(); t.join()
b = threading.Barrier(4); got = []
def meet(): got.append(b.wait())
ts = [threading.Thread(target=meet) for _ in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(got), threading.active_count())
s = threading.Semaphore(2); print(s.acquire(timeout=1), s.acquire(timeout=1), s.acquire(timeout=0.1))
'
