# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python wrapper of libpmix as a tool of the server that started the process: it lists its servers, gets,
puts and fences. Exits with 1 on a failure."""

import os
import sys

import pmix

from common import must, text_of


def main():
    tool = pmix.PMIxTool()
    status, me = tool.init([])
    must("init", status)
    if (text_of(me["nspace"]), me["rank"]) != (os.environ["PMIX_NAMESPACE"], int(os.environ["PMIX_RANK"])):
        sys.exit(f"the tool is {me!r}")
    if not tool.initialized():
        sys.exit("it is not initialized")
    status, servers = tool.get_servers()
    must("get_servers", status)
    if len(servers) != 1:
        sys.exit(f"the servers are {servers!r}")
    must("set_server", tool.set_server(servers[0], []))
    job = {"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}
    status, size = tool.get(job, pmix.PMIX_JOB_SIZE, [])
    must("get of the job size", status)
    value = {"value": f"of rank {me['rank']}", "val_type": pmix.PMIX_STRING}
    must("put", tool.put(pmix.PMIX_GLOBAL, "y.text", value))
    must("commit", tool.commit())
    must("fence", tool.fence([job], [{"key": pmix.PMIX_COLLECT_DATA, "value": True, "val_type": pmix.PMIX_BOOL}]))
    for rank in range(size["value"]):
        status, got = tool.get({"nspace": me["nspace"], "rank": rank}, "y.text", [])
        must(f"get of rank {rank}", status)
        if text_of(got["value"]) != f"of rank {rank}":
            sys.exit(f"rank {rank} said {got['value']!r}")
    must("finalize", tool.finalize())
    print(f"tool {me['rank']} of {size['value']} is content")


main()
