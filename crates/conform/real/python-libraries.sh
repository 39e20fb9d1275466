exec python3 -c '
import sqlite3, re, zlib, json, hashlib, decimal, mmap, socket, os, random, struct, bz2, lzma, ctypes, tempfile, shutil
db = sqlite3.connect("data.db"); db.execute("create table t(a integer primary key, b text, c real)")
rng = random.Random(5)
with db: db.executemany("insert into t values(?,?,?)", [(i, "row %d" % rng.randrange(999), rng.random()) for i in range(20000)])
with db: db.execute("create index i on t(b)")
print(db.execute("select count(*), count(distinct b), round(sum(c), 6) from t where b like ?", ("row 1%",)).fetchone())
try: db.execute("insert into t values(1, 1, 1)")
except sqlite3.IntegrityError as e: print(e)
db.close()
text = " ".join("%s-%d" % (rng.choice(["alpha", "beta", "gamma"]), rng.randrange(1000)) for _ in range(40000))
print(len(re.findall(r"\b(?:alpha|beta)-(\d)\1\d?\b", text)), re.sub(r"(\w+)-(\d+)", r"\2\1", text)[:40])
data = text.encode()
for m in (zlib, bz2, lzma):
    z = m.compress(data); print(m.__name__, len(z), m.decompress(z) == data)
print(zlib.crc32(data), hashlib.blake2b(data).hexdigest()[:16], hashlib.pbkdf2_hmac("sha256", b"x", b"y", 60000).hex()[:16])
print(json.dumps(json.loads(json.dumps({"a": [1, 2.5, None, True], "b": {"c": "d\u00e9"}})), sort_keys=True))
decimal.getcontext().prec = 800; print(str(decimal.Decimal(2).sqrt())[-20:])
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(21), pow(3, 20001, 10**40 + 7))
with open("m", "wb") as f: f.write(bytes(range(256)) * 400)
with open("m", "rb") as f:
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); print(m.find(b"\xff\x00"), m[1000:1004], len(m)); m.close()
a, b = socket.socketpair(); a.sendall(data[:50000]); a.shutdown(socket.SHUT_WR)
n = 0
while (c := b.recv(4096)): n += len(c)
print(n, ctypes.CDLL(None).strlen(b"through ctypes"), struct.unpack("<I", b"\1\2\3\4"))
d = tempfile.mkdtemp(); open(d + "/x", "w").write("y"); print(sorted(os.listdir(d))); shutil.rmtree(d)
try: open("none")
except OSError as e: print(e)
xs = sorted((rng.random() for _ in range(60000)), key=lambda x: -x); print("%.6f" % xs[1000])
'
