"""As turns.c: turns.py FILE N."""
import os
import sys

p, out, x = os.pipe(), os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1
kept = {}
for i in range(1, int(sys.argv[2]) + 1):
    os.write(p[1], bytes([i % 256]))
    d = os.read(p[0], 1)[0]
    for j in range(200):
        x = (x * 6364136223846793005 + d) % (1 << 64)
        kept[x % 5000] = str(x)
    if i % 100:
        continue
    os.write(out, b"%d %x %d\n" % (i, x, len("".join(kept.values()))))
    if i % 1000 == 0:
        child = os.fork()
        if not child:
            os.write(out, b"child\n")
            os._exit(3)
        os.write(out, b"%d\n" % os.waitpid(child, 0)[1])
    if os.path.exists("/tmp/enough"):
        break
