"""A blocking session with a node's daemon."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, List, Optional

from . import types
from .codec import decode, encode

#: Longest line of either side, bytes.
LINE_MAX = 1 << 20
#: Longest wait for an answer from the daemon's own data, seconds.
ANSWER_S = 10.0
#: Longest wait for the end of a move, seconds.
MOVE_S = 130.0


class Error(Exception):
    """What the client raises; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NoDaemon(Error):
    """No daemon answers at the socket, or it ended the session."""


class Late(Error):
    """No answer in time. Whether the request was carried out is unknown; the session is closed."""


class Refused(Error):
    """The daemon refused; nothing was changed unless the message says so. The session goes on."""

    def __init__(self, refusal: types.Refusal) -> None:
        super().__init__(refusal.message, refusal.hint)
        self.code = refusal.code


def socket_path() -> str:
    """The control socket of this node: ARMENTO_SOCKET, or the default."""
    return os.environ.get("ARMENTO_SOCKET") or "/run/armento/control.sock"


class Client:
    """A session with this node's daemon. Not for several threads at once."""

    def __init__(self, path: Optional[str] = None) -> None:
        self.path = path or socket_path()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._input = b""
        self._next = 1
        try:
            self._socket.connect(self.path)
        except OSError as e:
            self._socket.close()
            raise NoDaemon(
                f"this node's daemon does not answer at {self.path}: {e.strerror}",
                "start it: `systemctl start armento`, or `armento node`",
            ) from e

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # --- requests ---

    def nodes(self) -> List[types.NodeInfo]:
        """All nodes of the farm, as the daemon sees them."""
        return self._answer(types.AskNodes()).nodes

    def processes(self, all: bool = False) -> List[types.ProcInfo]:
        """Processes of this home; with `all` of every home. You see your own, root sees all."""
        return self._answer(types.AskPs(all=all)).procs

    def why(self, pid: int) -> Any:
        """Why a process is where it is."""
        return self._answer(types.AskWhy(pid=pid))

    def log(self, count: int = 100, after: int = 0) -> List[types.LogEntry]:
        """The newest decisions of this node's daemon, newer than number `after`."""
        return self._answer(types.AskLog(count=count, after=after)).entries

    def status(self) -> Any:
        """Name, farm and version of the daemon."""
        return self._answer(types.AskStatus())

    def switches(self, change: Optional[types.SwitchChange] = None) -> types.SwitchInfo:
        """What an administrator has switched off here; with `change`, changes it."""
        return self._answer(types.AskSwitch(change=change))

    def trust(self) -> types.TrustInfo:
        """To whom this node sends, and whose guests it takes."""
        return self._answer(types.AskTrust())

    def mfs(self) -> types.MfsInfo:
        """The mount of MFS on this node."""
        return self._answer(types.AskMfs())

    def dfsa(self) -> types.DfsaInfo:
        """The shared mounts of this node."""
        return self._answer(types.AskDfsa())

    def migrate(self, pid: int, node: str) -> Any:
        """Moves a process that was started by `armento run`; returns when it runs on that node."""
        return self._move(pid, {"node": node})

    def home(self, pid: int) -> Any:
        """Brings a process home."""
        return self._move(pid, "home")

    def balance(self, pid: int) -> Any:
        """Lets the farm choose again where a process runs."""
        return self._move(pid, "balance")

    # --- the session ---

    def ask(self, request: Any, timeout_s: float = ANSWER_S) -> Any:
        """Sends a request of `types` (`Ask…`) and returns the answer's dataclass."""
        number, self._next = self._next, self._next + 1
        line = json.dumps({"v": types.VERSION, "id": number, "ask": encode(request)})
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(line.encode() + b"\n")
            while True:
                reply = json.loads(self._line(deadline))
                if reply.get("id") != number:
                    continue
                if "err" in reply:
                    raise Refused(decode(types.Refusal, reply["err"]))
                return self._decoded(reply.get("ok"))
        except socket.timeout as e:
            self.close()
            raise Late("this node's daemon did not answer in time", "see the daemon's log") from e
        except OSError as e:
            raise NoDaemon(f"the session with {self.path} broke: {e.strerror}", "connect again") from e

    def _answer(self, request: Any) -> Any:
        return self.ask(request)

    def _move(self, pid: int, to: Any) -> Any:
        return self.ask(types.AskMigrate(pid=pid, to=to), MOVE_S)

    @staticmethod
    def _decoded(answer: Any) -> Any:
        kind = types.ANSWER_BY_TAG.get((answer or {}).get("type"))
        if kind is None:
            raise Error("the daemon's answer is not known to this client", "is it of the same version?")
        return decode(kind, answer)

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._input:
            if len(self._input) > LINE_MAX:
                raise Error(f"the daemon sent a line of more than {LINE_MAX} bytes", "see its log")
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            got = self._socket.recv(65536)
            if not got:
                raise NoDaemon(f"the daemon at {self.path} ended the session", "connect again")
            self._input += got
        line, self._input = self._input.split(b"\n", 1)
        return line
