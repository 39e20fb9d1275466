cat > pool.py <<'END'
import hashlib, multiprocessing as mp, time

def work(n):
    h = hashlib.sha256()
    for i in range(60000):
        h.update(b'%d' % (n * i))
    return n, h.hexdigest()[:12]

def put(lock, queue, me):
    for i in range(60):
        with lock:
            queue.put((me, i))
        sum(range(20000))

def wait(event, me):
    event.wait(20)
    raise SystemExit(me)

mp.set_start_method('fork')
with mp.Pool(3) as pool:
    for result in pool.imap(work, range(12)):
        print(*result, flush=True)
lock, queue = mp.Lock(), mp.Queue()
crew = [mp.Process(target=put, args=(lock, queue, k)) for k in range(3)]
for p in crew: p.start()
got = [queue.get() for _ in range(180)]
for p in crew: p.join()
print(sorted(got)[-1], len(set(got)))
event = mp.Event()
crew = [mp.Process(target=wait, args=(event, k)) for k in range(3)]
for p in crew: p.start()
time.sleep(.3)
event.set()
for p in crew: p.join()
print([p.exitcode for p in crew])
END
python3 pool.py
