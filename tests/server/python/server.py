# SPDX-License-Identifier: MIT OR Apache-2.0
"""`server.py N PROGRAM [ARGS...]`: the Python wrapper of libpmix as the server of a job of N processes on this node,
which implements publish, lookup and event registration. Exits with the exit code of the first process that fails, and
with 1 on a failure of its own."""

import os
import signal
import subprocess
import sys
import threading

import pmix

from common import info

SECONDS = 40
JOB = "python@1"

published = {}
listening = set()
changed = threading.Condition()


def must(what, status):
    """Exits unless the status is success; releases report calls that completed at once by another status."""
    if status not in (pmix.PMIX_SUCCESS, pmix.PMIX_OPERATION_SUCCEEDED):
        sys.exit(f"{what}: {status}")


def known(_):
    """Accepts a call that needs no action: a connect or exit, or an event, which the library delivers locally."""
    return pmix.PMIX_SUCCESS


def listen(request):
    """Records event codes for which processes registered."""
    with changed:
        listening.update(request["codes"])
    return pmix.PMIX_SUCCESS


def forget(request):
    """Removes event codes for which no process is registered any more."""
    with changed:
        listening.difference_update(request["codes"])
        changed.notify_all()
    return pmix.PMIX_SUCCESS


def fence(_):
    """Leaves fences to the library, as all processes are local."""
    return pmix.PMIX_ERR_NOT_SUPPORTED, b""


def publish(request):
    """Keeps each value; directives of the library have reserved keys."""
    for entry in request["directives"]:
        if not entry["key"].startswith("pmix."):
            if entry["key"] in published:
                return pmix.PMIX_ERR_DUPLICATE_KEY
            published[entry["key"]] = entry
    return pmix.PMIX_SUCCESS


def lookup(request):
    """Looks up values without waiting for missing ones."""
    keys = [key.decode() for key in request["keys"]]
    if any(key not in published for key in keys):
        return pmix.PMIX_ERR_NOT_FOUND, None
    return pmix.PMIX_SUCCESS, [published[key] for key in keys]


def unpublish(request):
    """Removes the named values."""
    for key in request.get("keys", []):
        published.pop(key.decode() if isinstance(key, bytes) else key, None)
    return pmix.PMIX_SUCCESS


MODULE = {
    "clientconnected": known,
    "clientfinalized": known,
    "fencenb": fence,
    "publish": publish,
    "lookup": lookup,
    "unpublish": unpublish,
    "registerevents": listen,
    "deregisterevents": forget,
    "notifyevent": known,
}


def register(server, size):
    """Registers the job on this node, and its processes."""
    status, nodes = server.generate_regex([os.uname().nodename])
    must("generate_regex", status)
    status, procs = server.generate_ppn([",".join(str(rank) for rank in range(size))])
    must("generate_ppn", status)
    about = [
        info(pmix.PMIX_NODE_MAP, nodes, pmix.PMIX_STRING),
        info(pmix.PMIX_PROC_MAP, procs, pmix.PMIX_STRING),
        info(pmix.PMIX_UNIV_SIZE, size, pmix.PMIX_UINT32),
        info(pmix.PMIX_JOB_SIZE, size, pmix.PMIX_UINT32),
    ]
    must("register_nspace", server.register_nspace(JOB, size, about))
    for rank in range(size):
        proc = {"nspace": JOB, "rank": rank}
        must("register_client", server.register_client(proc, os.getuid(), os.getgid()))


def start(server, size, command):
    """Starts the processes, each with the environment from the server."""
    running = []
    for rank in range(size):
        environment = dict(os.environ)
        must("setup_fork", server.setup_fork({"nspace": JOB, "rank": rank}, environment))
        running.append(subprocess.Popen(command, env=environment))
    return running


def main():
    size = int(sys.argv[1])
    server = pmix.PMIxServer()
    must("init", server.init([info(pmix.PMIX_SERVER_NSPACE, "python-server", pmix.PMIX_STRING)], MODULE))
    register(server, size)
    signal.alarm(SECONDS)
    codes = [process.wait() for process in start(server, size, sys.argv[2:])]
    signal.alarm(0)
    failed = [code for code in codes if code != 0]
    if failed:
        sys.exit(f"processes ended with {failed}")
    # The wrapper holds its lock while it finalizes, so all deregistrations must have arrived before.
    with changed:
        if not changed.wait_for(lambda: not listening, SECONDS):
            sys.exit(f"somebody listens to {listening}")
    server.deregister_nspace(JOB)
    must("finalize", server.finalize())
    print(f"a server of {size} is content")


main()
