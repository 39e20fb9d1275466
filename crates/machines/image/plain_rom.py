"""The cable of a machine whose ROM is not iPXE: plain_rom.py TAP OWN GUEST.

Frames pass between the interface TAP and QEMU's datagram sockets (OWN is ours, GUEST is QEMU's). Until iPXE has been asked for by TFTP, what
the machine asks by DHCP lacks the marks of iPXE: option 175 and the user class (option 77) get numbers of sites' own (RFC 3942).
"""
import fcntl, os, select, socket, struct, sys

tap, own, guest = sys.argv[1:]
# KERNEL: linux/if_tun.h: TUNSETIFF; IFF_TAP | IFF_NO_PI.
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", tap.encode(), 0x0002 | 0x1000))
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
box.bind(own)
IPV4, UDP, TFTP, DHCP = 0x0800, 17, 69, (67, 4011)
loaded = False


def hidden(frame):
    """The frame without the marks of iPXE."""
    global loaded
    if loaded or len(frame) < 42 or struct.unpack_from("!H", frame, 12)[0] != IPV4 or frame[23] != UDP:
        return frame
    udp = 14 + (frame[14] & 15) * 4
    to = struct.unpack_from("!H", frame, udp + 2)[0]
    if to == TFTP:
        # What is loaded speaks for itself from its first DHCP message on.
        loaded = b".kpxe\0" in frame
        return frame
    at = udp + 8 + 240
    if to not in DHCP or len(frame) <= at:
        return frame
    frame = bytearray(frame)
    while at + 1 < len(frame) and frame[at] != 255:
        if frame[at] == 0:
            at += 1
            continue
        frame[at] = {175: 224, 77: 225}.get(frame[at], frame[at])
        at += 2 + frame[at + 1]
    # RFC 768: no checksum.
    frame[udp + 6 : udp + 8] = b"\0\0"
    return bytes(frame)


while True:
    for ready in select.select([tun, box], [], [])[0]:
        if ready is box:
            os.write(tun, hidden(box.recv(65536)))
            continue
        try:
            box.sendto(os.read(tun, 65536), guest)
        except (FileNotFoundError, ConnectionRefusedError):
            # The machine is off.
            pass
