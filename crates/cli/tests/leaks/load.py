"""Three threads that compute, map, unmap, write and read until /tmp/leak/stop is there; each prints how many rounds
it made and what came of them. With three numbers: so many rounds, for the same lines."""
import hashlib
import mmap
import os
import sys
import threading
import time

SIZE = 1 << 18
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def chain(n, rounds):
    buf, digest, done = bytearray(SIZE), bytes([n]) * 32, 0
    file = os.open("/tmp/leak/file%d" % n, os.O_RDWR | os.O_CREAT)
    while not over if rounds is None else done < rounds:
        at = int.from_bytes(digest[:4], "little") % (SIZE - 4096)
        buf[at:at + 32] = digest
        with mmap.mmap(-1, 16384, PRIVATE) as m:
            m[:32] = digest
            os.pwrite(file, m[:32], done % 64 * 32)
        read = os.pread(file, 32, done % 64 * 32)
        digest = hashlib.sha256(buf[at:at + 4096] + read).digest()
        os.getppid()
        done += 1
    results[n] = "%d %d %s" % (n, done, digest.hex())


over, results = False, {}
rounds = [int(a) for a in sys.argv[1:]] or [None] * 3
crew = [threading.Thread(target=chain, args=a) for a in enumerate(rounds)]
for t in crew:
    t.start()
if not sys.argv[1:]:
    open("/tmp/leak/ready", "w").close()
    while not os.path.exists("/tmp/leak/stop"):
        time.sleep(0.02)
    over = True
for t in crew:
    t.join()
for n in sorted(results):
    print(results[n])
