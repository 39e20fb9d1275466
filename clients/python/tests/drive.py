"""Drives a real daemon: what it says is what `armento` says. Run by crates/cli/tests/names.rs."""

import json
import subprocess
import sys

from armento import Client, NoDaemon, Refused, types


def said(*words):
    return json.loads(subprocess.run(["armento", *words, "--json"], check=True, capture_output=True).stdout)


def main(pid, node):
    with Client() as farm:
        nodes = farm.nodes()
        assert [n.name for n in nodes] == [n["name"] for n in said("nodes")["nodes"]], nodes
        assert all(isinstance(n, types.NodeInfo) and n.cores > 0 for n in nodes), nodes
        status = farm.status()
        assert status.node == next(n.name for n in nodes if n.here), status
        moved = farm.migrate(pid, node)
        assert (moved.pid, moved.node) == (pid, node), moved
        (proc,) = [p for p in farm.processes() if p.pid == pid]
        assert proc.place == node and proc.locked and isinstance(proc.files, types.FileCounts), proc
        assert farm.why(pid).place == node
        entry = farm.log()[-1]
        assert (entry.pid, entry.to, entry.cause) == (pid, node, "asked"), entry
        assert isinstance(entry.outcome, types.OutcomeMoved) and entry.outcome.bytes > 0, entry
        assert farm.home(pid).node == status.node
        assert farm.switches(types.SwitchChange(block=True)).block
        assert not farm.switches(types.SwitchChange(block=False)).block
        try:
            farm.migrate(pid, "nowhere")
        except Refused as no:
            assert no.code == "no-such-node" and no.hint, (no.code, no.message)
        else:
            raise AssertionError("a move to no node was not refused")
        assert farm.mfs().node == status.node and farm.dfsa().node == status.node and farm.trust().node
    try:
        Client("/nonexistent/armento.sock")
    except NoDaemon as no:
        assert "armento node" in no.hint
    else:
        raise AssertionError("there is no daemon")
    print("driven")


main(int(sys.argv[1]), sys.argv[2])
