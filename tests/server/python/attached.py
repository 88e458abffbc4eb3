# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python wrapper of libpmix as a tool that no server started: it finds a server by its process ID, queries it,
publishes and looks up, and registers for events. Exits with 1 on a failure."""

import os
import sys

# Remove the variables of the server that started this process: the library would read them when it is loaded.
JOB = os.environ["PMIX_NAMESPACE"]
RANK = int(os.environ["PMIX_RANK"])
for name in [name for name in os.environ if name.startswith("PMIX_") and not name.startswith("PMIX_MCA_")]:
    del os.environ[name]

import pmix

from common import info, must, text_of


def ask(tool):
    """Gets and queries the job."""
    status, size = tool.get({"nspace": JOB, "rank": pmix.PMIX_RANK_WILDCARD}, pmix.PMIX_JOB_SIZE, [])
    must("get of the job size", status)
    status, host = tool.get({"nspace": JOB, "rank": RANK}, pmix.PMIX_HOSTNAME, [])
    must("get of the host name", status)
    if text_of(host["value"]) != os.uname().nodename:
        sys.exit(f"the host is {host!r}")
    status, names = tool.query([{"keys": [pmix.PMIX_QUERY_NAMESPACES], "qualifiers": []}])
    must("query", status)
    if JOB not in text_of(names[0]["value"]).split(","):
        sys.exit(f"the jobs are {names!r}")
    return size["value"]


def board(tool):
    """Publishes, looks up and unpublishes."""
    key = f"attached.{RANK}"
    must("publish", tool.publish([info(key, "17", pmix.PMIX_STRING)]))
    status, found = tool.lookup([{"key": key}], [])
    must("lookup", status)
    if text_of(found[0]["value"]) != "17":
        sys.exit(f"looked up {found!r}")
    must("unpublish", tool.unpublish([key], []))


def events(tool):
    """Registers and deregisters an event handler."""
    status, handler = tool.register_event_handler([pmix.PMIX_ERR_PROC_RESTART], [], lambda *_: (0, []))
    must("register_event_handler", status)
    tool.deregister_event_handler(handler)


def main():
    tool = pmix.PMIxTool()
    pid = os.getppid()
    status, me = tool.init([info(pmix.PMIX_SERVER_PIDINFO, pid, pmix.PMIX_PID)])
    must("init", status)
    if not tool.initialized() or text_of(me["nspace"]).rstrip("\0") in ("", JOB):
        sys.exit(f"the tool is {me!r}")
    status, servers = tool.get_servers()
    must("get_servers", status)
    if len(servers) != 1:
        sys.exit(f"the servers are {servers!r}")
    must("set_server", tool.set_server(servers[0], []))
    size = ask(tool)
    board(tool)
    events(tool)
    must("log", tool.log([info(pmix.PMIX_LOG_STDERR, "a line of a tool\n", pmix.PMIX_STRING)], []))
    must("finalize", tool.finalize())
    print(f"tool at the server of {size} is content")


main()
