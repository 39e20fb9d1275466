"""Maps new files all the time, writes into every second one, and looks whether they are what they were.

Arguments: a directory, and `gone` for files that are deleted as soon as they are mapped.
"""
import mmap, os, sys

KEPT = 8  # mappings at a time
directory, gone = sys.argv[1], "gone" in sys.argv
os.makedirs(directory, exist_ok=True)
ballast = os.urandom(8 << 20)  # enough for a pre-copy


def bytes_of(n):
    return b"%08d " % n * 1000


def as_it_is_now(n):
    now = bytearray(bytes_of(n))
    if n % 2:
        now[5000] = 7
    return bytes(now)


def begin(n):
    path = f"{directory}/{n}"
    with open(path, "w+b") as f:
        f.write(bytes_of(n))
        f.flush()
        m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    if n % 2:
        m[5000] = 7
    if gone:
        os.unlink(path)
    return n, path, m


kept, n, wrong = [], 0, 0
while not os.path.exists(f"{directory}/stop"):
    kept.append(begin(n))
    n += 1
    if n == KEPT:
        open(f"{directory}/ready", "w").close()
    if len(kept) > KEPT:
        k, path, m = kept.pop(0)
        wrong += m[:] != as_it_is_now(k)
        m.close()
        if not gone:
            os.unlink(path)
wrong += sum(m[:] != as_it_is_now(k) for k, _, m in kept)
print(wrong, "wrong")
