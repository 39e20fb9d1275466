exec python3 -c '
import subprocess as sp, multiprocessing as mp, signal, os, sys, asyncio, time
print(sp.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True))
print(sp.run(["tr", "a-z", "A-Z"], input=b"through tr" * 1000, stdout=sp.PIPE).stdout[:20])
try: sp.run(["no-such-program"])
except FileNotFoundError as e: print("not found", e.errno)
try: sp.run(["sleep", "50"], timeout=0.2)
except sp.TimeoutExpired as e: print("timed out")
p = sp.Popen(["cat"], stdin=sp.PIPE, stdout=sp.PIPE, text=True)
for i in range(5):
    p.stdin.write(f"line {i}\n"); p.stdin.flush(); print(p.stdout.readline().strip())
p.stdin.close(); print("cat", p.wait())
p = sp.Popen(["sleep", "50"], start_new_session=True); time.sleep(0.1); p.terminate(); print("sleep", p.wait())
print(sp.check_output("printenv X; pwd; umask", shell=True, env={"X": "y", "PATH": os.environ["PATH"]}, cwd="/", umask=0o77))
a = sp.Popen(["seq", "50000"], stdout=sp.PIPE); b = sp.Popen(["md5sum"], stdin=a.stdout, stdout=sp.PIPE); a.stdout.close()
print(b.communicate()[0], a.wait())
ctx = mp.get_context("fork")
def f(n): return sum(i * i % 7 for i in range(n))
def child(c):
    c.send(["hello", 1, None]); c.send(c.recv() * 2); c.close(); sys.exit(4)
x, y = ctx.Pipe(); k = ctx.Process(target=child, args=(y,)); k.start()
print(x.recv()); x.send(21); print(x.recv()); k.join(); print("exit", k.exitcode)
kids = []
for n in range(4):
    r, w = os.pipe(); pid = os.fork()
    if not pid: os.write(w, str(f(60000 * (n + 1))).encode()); os._exit(n)
    os.close(w); kids.append((pid, r))
for pid, r in kids: print(os.read(r, 100), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
got = []
signal.signal(signal.SIGALRM, lambda s, f: got.append(s)); signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
while len(got) < 4: signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0); print(len(got) >= 4)
async def main():
    async def job(n): await asyncio.sleep(n / 40); return n
    print(await asyncio.gather(*[job(n) for n in range(6)]))
    p = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.1; echo async; exit 6", stdout=sp.PIPE)
    print(await p.communicate(), p.returncode)
    s = await asyncio.start_server(lambda r, w: w.write(b"served") or w.close(), "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); print(await r.read()); w.close(); s.close()
asyncio.run(main())
sys.stdout.flush(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)
'
