# SPDX-License-Identifier: MIT OR Apache-2.0
"""Uses PMI-2 by the client library of Slurm, and prints `pmi2 passed`.

    pmi2.py LIBPMI2
"""
import ctypes
import sys

LIB = ctypes.CDLL(sys.argv[1])


def call(name, *args):
    """Calls a function, which must return 0."""
    status = getattr(LIB, "PMI2_" + name)(*args)
    assert status == 0, (name, args, status)


def number():
    return ctypes.c_int(-1)


def main():
    spawned, size, rank, app = number(), number(), number(), number()
    refs = [ctypes.byref(value) for value in (spawned, size, rank, app)]
    call("Init", *refs)
    size, rank = size.value, rank.value
    assert (spawned.value, app.value) == (0, 0)
    text, length, found = ctypes.create_string_buffer(1024), number(), number()

    def get(key):
        call("KVS_Get", job, -1, key, text, 1024, ctypes.byref(length))
        assert length.value == len(text.value)
        return text.value

    def attribute(name, *more):
        call(f"Info_Get{name}Attr", *more[:1], text, 1024, ctypes.byref(found), *more[1:])
        return text.value if found.value else None

    call("Job_GetId", text, 1024)
    job = text.value
    other = (rank + 1) % size
    for turn in range(3):
        # The same keys with other values, which must replace those of the turn before.
        call("KVS_Put", b"card-%d" % rank, b"%d;of=%d turn %d" % (rank, size, turn))
        call("KVS_Fence")
        assert get(b"card-%d" % other) == b"%d;of=%d turn %d" % (other, size, turn)
        call("KVS_Fence")
    assert attribute("Job", b"universeSize") == b"%d" % size
    assert attribute("Job", b"PMI_process_mapping") == b"(vector,(0,1,%d))" % size
    assert attribute("Job", b"nothing") is None
    if rank == size - 1:
        call("Info_PutNodeAttr", b"node", b"attribute")
    assert attribute("Node", b"node", 1) == b"attribute"
    if rank == 0:
        call("Nameserv_publish", b"ocean model", None, b"port;5")
    call("KVS_Fence")
    call("Nameserv_lookup", b"ocean model", None, text, 1024)
    assert text.value == b"port;5"
    call("KVS_Fence")
    if rank == 0:
        call("Nameserv_unpublish", b"ocean model", None)
    call("Finalize")
    print("pmi2 passed")


main()
