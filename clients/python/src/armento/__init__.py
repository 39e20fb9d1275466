"""Client of Armento's control API: the nodes of a farm, its processes, and moves."""

from .client import Client, Error, Late, NoDaemon, Refused, socket_path
from . import types

__all__ = ["Client", "Error", "Late", "NoDaemon", "Refused", "socket_path", "types"]
