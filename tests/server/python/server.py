# SPDX-License-Identifier: MIT OR Apache-2.0
"""`server.py N PROGRAM [ARGS...]`: the Python wrapper of libpmix as a server: a job of N processes on this node,
which publish, look up and tell events through what is written here. Ends with the exit code of the first
process that fails, with 1 on a fault of its own."""

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
    """The status must be success; releases say of what they have done at once that it succeeded."""
    if status not in (pmix.PMIX_SUCCESS, pmix.PMIX_OPERATION_SUCCEEDED):
        sys.exit(f"{what}: {status}")


def known(_):
    """What needs nothing done: a process that comes or goes, an event, which the library tells all here."""
    return pmix.PMIX_SUCCESS


def listen(request):
    """Processes listen to these codes from now on."""
    with changed:
        listening.update(request["codes"])
    return pmix.PMIX_SUCCESS


def forget(request):
    """Nobody listens to these codes any longer."""
    with changed:
        listening.difference_update(request["codes"])
        changed.notify_all()
    return pmix.PMIX_SUCCESS


def fence(_):
    """All processes are here, and so the library ends their fences itself."""
    return pmix.PMIX_ERR_NOT_SUPPORTED, b""


def publish(request):
    """Keeps each value; what the library says of it has keys of its own."""
    for entry in request["directives"]:
        if not entry["key"].startswith("pmix."):
            if entry["key"] in published:
                return pmix.PMIX_ERR_DUPLICATE_KEY
            published[entry["key"]] = entry
    return pmix.PMIX_SUCCESS


def lookup(request):
    """Does not wait for what is not there."""
    keys = [key.decode() for key in request["keys"]]
    if any(key not in published for key in keys):
        return pmix.PMIX_ERR_NOT_FOUND, None
    return pmix.PMIX_SUCCESS, [published[key] for key in keys]


def unpublish(request):
    """Forgets what is named."""
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
    """The job, all of it on this node, and its processes."""
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
    """The processes, each with what the server puts into its environment."""
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
    # The wrapper keeps its lock while the library ends, which cannot call it then.
    with changed:
        if not changed.wait_for(lambda: not listening, SECONDS):
            sys.exit(f"somebody listens to {listening}")
    server.deregister_nspace(JOB)
    must("finalize", server.finalize())
    print(f"a server of {size} is content")


main()
