# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python wrapper of libpmix as a client: put, commit, fence and get, publish and lookup, events.
Exits with 1 on a failure."""

import sys
import threading

import pmix

from common import info, must, text_of

SECONDS = 20


def exchange(client, me, size):
    """Puts data, and gets those of every process."""
    value = {"value": f"of rank {me['rank']}", "val_type": pmix.PMIX_STRING}
    must("put", client.put(pmix.PMIX_GLOBAL, "y.text", value))
    must("commit", client.commit())
    job = {"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}
    must("fence", client.fence([job], [info(pmix.PMIX_COLLECT_DATA, True, pmix.PMIX_BOOL)]))
    for rank in range(size):
        status, got = client.get({"nspace": me["nspace"], "rank": rank}, "y.text", [])
        must(f"get of rank {rank}", status)
        if text_of(got["value"]) != f"of rank {rank}":
            sys.exit(f"rank {rank} said {got['value']!r}")


def board(client, me):
    """Publishes in rank 0, looks up in all, and unpublishes."""
    data = [info("y.port", "17", pmix.PMIX_STRING)]
    if me["rank"] == 0:
        must("publish", client.publish(data))
    must("fence", client.fence([], []))
    status, found = client.lookup([{"key": "y.port"}], [])
    must("lookup", status)
    if text_of(found[0]["value"]) != "17":
        sys.exit(f"looked up {found!r}")
    must("fence", client.fence([], []))
    if me["rank"] == 0:
        must("unpublish", client.unpublish(["y.port"], []))
    must("fence", client.fence([], []))


def events(client, me):
    """Notifies the others from rank 0. The wrapper holds its lock during the notification, and a handler
    needs that lock, so rank 0 registers none."""
    code = pmix.PMIX_ERR_PROC_RESTART
    came = threading.Event()

    def heard(handler, status, source, infos, results):
        if status == code and source["rank"] == 0:
            came.set()
        return pmix.PMIX_EVENT_ACTION_COMPLETE, []

    if me["rank"] != 0:
        status, handler = client.register_event_handler([code], [], heard)
        must("register_event_handler", status)
    must("fence", client.fence([], []))
    if me["rank"] == 0:
        must("notify_event", client.notify_event(code, me, pmix.PMIX_RANGE_NAMESPACE, []))
    elif not came.wait(SECONDS):
        sys.exit("the event did not come")
    must("fence", client.fence([], []))


def main():
    client = pmix.PMIxClient()
    status, me = client.init([])
    must("init", status)
    job = {"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}
    status, size = client.get(job, pmix.PMIX_JOB_SIZE, [])
    must("get of the job size", status)
    size = size["value"]
    exchange(client, me, size)
    board(client, me)
    events(client, me)
    must("finalize", client.finalize([]))
    print(f"rank {me['rank']} of {size} is content")


main()
