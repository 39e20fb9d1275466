"""What a machine without an operating system asks for (RFC 2131, RFC 4578, PXE 2.1), and what is answered, as JSON.

pxe.py LINK MAC ARCH rom|ipxe|plain     a firmware's ROM, iPXE, or a machine that does not boot by network
pxe.py LINK MAC ARCH reboot ADDRESS     a machine that had ADDRESS before
BOOT: the boot server that is asked on port 4011 although it offered nothing.
"""
import json, os, random, select, socket, struct, subprocess, sys, time

LINK, MAC, ARCH, KIND = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), int(sys.argv[3]), sys.argv[4]
ALL = ("255.255.255.255", 67)
XID = random.getrandbits(32)
NONE = "0.0.0.0"
# Seconds for an answer, and attempts: a DHCP server that starts is not there yet.
WAIT, ATTEMPTS = 2, 5
# RFC 2132: types of messages, option 53.
DISCOVER, REQUEST = 1, 3
NAMES = {2: "offer", 5: "ack", 6: "nak"}


def option(code, data):
    return bytes([code, len(data)]) + data


def message(kind, options, address=NONE):
    head = struct.pack(
        "!BBBBIHH4s4s4s4s16s64s128s", 1, 1, 6, 0, XID, 0, 0x8000, socket.inet_aton(address), b"", b"", b"", MAC, b"", b""
    )
    return head + bytes.fromhex("63825363") + option(53, bytes([kind])) + options + b"\xff"


def own_options():
    if KIND in ("plain", "reboot"):
        return option(55, bytes([1, 3, 6]))
    text = option(60, b"PXEClient:Arch:%05d:UNDI:002001" % ARCH) + option(93, struct.pack("!H", ARCH))
    text += option(94, bytes([1, 2, 1])) + option(97, b"\0" + MAC + bytes(10)) + option(55, bytes([1, 3, 6, 43, 60, 66, 67]))
    return text + option(77, b"iPXE") + option(175, option(0x13, b"\1")) if KIND == "ipxe" else text


def options(data, at, end):
    found = {}
    while at < end and data[at] != 255:
        if data[at] == 0:
            at += 1
            continue
        found[data[at]] = data[at + 2 : at + 2 + data[at + 1]]
        at += 2 + data[at + 1]
    return found


def answer(data):
    found = options(data, 240, len(data))
    text = lambda b: b.split(b"\0")[0].decode("latin1")
    vendor = options(found.get(43, b""), 0, len(found.get(43, b"")))
    return {
        "kind": NAMES.get(found.get(53, b"\0")[0], "?"),
        "server": socket.inet_ntoa(found.get(54, bytes(4))),
        "address": socket.inet_ntoa(data[16:20]),
        "file": text(data[108:236]) or text(found.get(67, b"")),
        "pxe": text(found.get(60, b"")) == "PXEClient",
        # The first boot server type of option 43, 8.
        "item": int.from_bytes(vendor.get(8, b"\0\0")[:2], "big"),
    }


def ask(s, data, to):
    s.sendto(data, to)
    until, got = time.monotonic() + WAIT, []
    while (left := until - time.monotonic()) > 0:
        if select.select([s], [], [], left)[0]:
            packet = s.recv(2048)
            if packet[4:8] == data[4:8]:
                got.append(answer(packet))
    return got


def opened(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for name in (socket.SO_BROADCAST, socket.SO_REUSEADDR):
        s.setsockopt(socket.SOL_SOCKET, name, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, LINK.encode())
    s.bind((address, 68))
    return s


def main():
    s = opened("")
    if KIND == "reboot":
        return {"reboot": ask(s, message(REQUEST, own_options() + option(50, socket.inet_aton(sys.argv[5]))), ALL)}
    for _ in range(ATTEMPTS):
        offers = ask(s, message(DISCOVER, own_options()), ALL)
        given = [o for o in offers if o["address"] != NONE]
        if given:
            break
    else:
        return {"discover": offers}
    address, server = given[0]["address"], given[0]["server"]
    wanted = option(50, socket.inet_aton(address)) + option(54, socket.inet_aton(server))
    said = {"discover": offers, "request": ask(s, message(REQUEST, own_options() + wanted), ALL)}
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", LINK], check=True)
    boot = [o for o in offers if o["pxe"]]
    item = boot[0]["item"] if boot else 0x8000
    # PXE 2.1, 2.2.3: firmware of BIOS asks for the item that the menu named.
    item = option(43, option(71, struct.pack("!HH", item, 0)) + b"\xff") if ARCH == 0 else b""
    to = boot[0]["server"] if boot else os.environ["BOOT"]
    said["boot"] = ask(opened(address), message(REQUEST, own_options() + item, address), (to, 4011))
    subprocess.run(["ip", "addr", "del", f"{address}/24", "dev", LINK], check=True)
    return said


print(json.dumps(main()))
