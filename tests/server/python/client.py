# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python wrapper of libpmix as a client: put, commit, fence and get. Ends with 1 on a fault."""

import sys

import pmix


def must(what, status):
    """The status must be success."""
    if status != 0:
        sys.exit(f"{what}: {status}")


def main():
    client = pmix.PMIxClient()
    status, me = client.init([])
    must("init", status)
    job = {"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}

    status, size = client.get(job, pmix.PMIX_JOB_SIZE, [])
    must("get of the job size", status)
    size = size["value"]

    value = {"value": f"of rank {me['rank']}", "val_type": pmix.PMIX_STRING}
    must("put", client.put(pmix.PMIX_GLOBAL, "y.text", value))
    must("commit", client.commit())
    collect = {"key": pmix.PMIX_COLLECT_DATA, "value": True, "val_type": pmix.PMIX_BOOL}
    must("fence", client.fence([job], [collect]))

    for rank in range(size):
        status, got = client.get({"nspace": me["nspace"], "rank": rank}, "y.text", [])
        must(f"get of rank {rank}", status)
        text = got["value"]
        text = text.decode() if isinstance(text, bytes) else text
        if text != f"of rank {rank}":
            sys.exit(f"rank {rank} said {text!r}")

    must("fence", client.fence([], []))
    must("finalize", client.finalize([]))
    print(f"rank {me['rank']} of {size} is content")


main()
