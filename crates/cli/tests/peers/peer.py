"""A hostile member of the farm: peer.py NODE-ADDRESS HOST-PORT SECONDS.

Against the daemon, its datagrams and the door of a host: noise, frames and lines too long, too deep or cut short, what
other words would begin with, connections that say nothing, and everything that it overheard, again. It has this node's own
keys. Prints what it did, and every answer that a stranger should not have got.
"""
import glob, json, os, random, socket, ssl, struct, sys, time

ADDR, DOOR, SECONDS = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
DAEMON = 7717
KEYS = "/var/lib/armento"
random.seed(4)
until = time.monotonic() + SECONDS
done, got = {}, []


def note(what):
    done[what] = done.get(what, 0) + 1


def plain(port):
    s = socket.create_connection((ADDR, port), timeout=3)
    s.settimeout(1)
    return s


def tls(port, member):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.check_hostname = False
    c.verify_mode = ssl.CERT_NONE
    if member:
        c.load_cert_chain(KEYS + "/node.pem", KEYS + "/node.key")
    return c.wrap_socket(plain(port), server_hostname="n2.armento")


def says(s, data, what):
    """Sends, and reads until the other side closes or has sent nothing for a second."""
    note(what)
    answer = b""
    try:
        s.sendall(data)
        while len(answer) < 65536:
            more = s.recv(65536)
            if not more:
                break
            answer += more
    except OSError:
        pass
    s.close()
    return answer


def noise():
    return random.randbytes(random.choice([1, 5, 300, 70000]))


def frames():
    """Frames as hosts send them: a length, a kind, a body."""
    kind = bytes([random.randrange(256)])
    return random.choice(
        [
            struct.pack("<I", 0) + kind,
            struct.pack("<I", 0xFFFFFFFF) + kind + b"x" * 1000,
            struct.pack("<I", 9 << 20) + kind + b"x" * 1000,
            (struct.pack("<I", 40) + kind + random.randbytes(39)) * 50,
        ]
    )


LINES = [
    b"[" * 100000 + b"\n",
    b'{"v":1,"ask":{"type":"' + b"a" * 3000000 + b'"}}\n',
    b"x" * 20000000 + b"\n",
    b'{"v":4294967295,"ask":{"type":"ps","uid":null}}\n',
    b'{"v":1,"ask":{"type":"no-such-question"}}\n',
    b'{"v":1,"ask":{"type":"admit","tree":"ffffffffffffffff","pid":-1,"uid":0,"need_kib":18446744073709551615}}\n',
    b'{"v":1,"ask":{"type":"said","epoch":18446744073709551615}}\n',
    b'{"v":1,"ask":{"type":"join","token":"","secret":"","version":"","engine":0,"name":"n1","csr_pem":"","addr":"10.0.0.1:1"}}\n',
    b"\xff\xfe\x00\n",
]


def one():
    port = random.choice([DAEMON, DOOR])
    what = random.randrange(5)
    if what == 0:
        says(plain(port), noise(), "noise")
    elif what == 1:
        # The first bytes of a handshake, and then nothing.
        says(plain(port), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise(), "half a handshake")
    elif what == 2:
        answer = says(plain(port), frames(), "frames")
        if len(answer) > 4096:
            got.append("an answer of %d bytes to frames" % len(answer))
    else:
        member = what == 4
        try:
            s = tls(port, member)
        except OSError:
            note("refused in the handshake")
            return
        data = random.choice(LINES) if port == DAEMON else frames()
        answer = says(s, data, "lines of a member" if member else "lines of a stranger")
        if port == DOOR and answer:
            got.append("the host's door answered %r" % answer[:80])
        if b'"ok"' in answer.lower() and b"admitted" in answer:
            got.append("it was admitted: %r" % answer[:80])


def overheard(seconds):
    """Datagrams of the farm that passed here."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    s.settimeout(0.2)
    end, all = time.monotonic() + seconds, []
    while time.monotonic() < end and len(all) < 500:
        try:
            p = s.recv(65536)
        except OSError:
            continue
        ihl = (p[0] & 15) * 4
        if p[9] == 17 and struct.unpack("!H", p[ihl + 2 : ihl + 4])[0] == DAEMON:
            all.append(p[ihl + 8 :])
    return all


silent = []
for _ in range(60):
    try:
        silent.append(plain(random.choice([DAEMON, DOOR])))
    except OSError:
        break
heard = overheard(2)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(4000):
    data = random.choice(heard) if heard and random.random() < 0.5 else random.randbytes(random.choice([0, 1, 30, 1200]))
    if heard and random.random() < 0.3:
        data = bytearray(random.choice(heard))
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    udp.sendto(bytes(data), (ADDR, DAEMON))
    note("datagrams")
while time.monotonic() < until:
    try:
        one()
    except OSError:
        note("not taken")
print(json.dumps({"done": done, "heard": len(heard), "got": got}))
