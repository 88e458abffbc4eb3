/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Uses NVSHMEM's bootstrap over PMIx (nvshmem_bootstrap_pmix.so.3) as libnvshmem_host does at its start, without a GPU:
 * init, allgather, alltoall, barrier, finalize. The first argument is the path of the plugin. With "abort" as the
 * second argument, the last rank ends the job with code 7, and the others wait in a barrier.
 *
 * The layout of the handle is that of the versions 3.0 to 3.8 of NVSHMEM.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The version of the interface between NVSHMEM and a bootstrap plugin: major * 10000 + minor * 100 + patch. */
#define INTERFACE 30000

/* The longest message of each process, in bytes. */
#define LONGEST 65536

struct handle {
    int version;
    int rank;
    int size;
    int rank_on_node;
    int size_on_node;
    int (*allgather)(const void *from, void *to, int bytes, struct handle *handle);
    int (*alltoall)(const void *from, void *to, int bytes, struct handle *handle);
    int (*barrier)(struct handle *handle);
    void (*global_exit)(int status);
    int (*finalize)(struct handle *handle);
    int (*show_info)(struct handle *handle, int style);
    void *before_init;
    void *state;
};

static void fail(int rank, const char *what, int code)
{
    fprintf(stderr, "rank %d: %s: %d\n", rank, what, code);
    exit(1);
}

/* The byte at a place of a message from one rank to another. */
static unsigned char byte(int from, int to, int place)
{
    return (unsigned char) (from * 31 + to * 7 + place);
}

static unsigned char *zeroed(struct handle *handle, int bytes)
{
    unsigned char *memory = calloc((size_t) handle->size, (size_t) bytes);
    if (memory == NULL) {
        fail(handle->rank, "no memory", bytes);
    }
    return memory;
}

static void allgather(struct handle *handle, int bytes)
{
    unsigned char *mine = zeroed(handle, bytes), *all = zeroed(handle, bytes);
    for (int place = 0; place < bytes; place++) {
        mine[place] = byte(handle->rank, 0, place);
    }
    int code = handle->allgather(mine, all, bytes, handle);
    if (code != 0) {
        fail(handle->rank, "allgather", code);
    }
    for (int from = 0; from < handle->size; from++) {
        for (int place = 0; place < bytes; place++) {
            if (all[from * bytes + place] != byte(from, 0, place)) {
                fail(handle->rank, "a wrong byte of an allgather", place);
            }
        }
    }
    free(mine);
    free(all);
}

static void alltoall(struct handle *handle, int bytes)
{
    unsigned char *mine = zeroed(handle, bytes), *all = zeroed(handle, bytes);
    for (int to = 0; to < handle->size; to++) {
        for (int place = 0; place < bytes; place++) {
            mine[to * bytes + place] = byte(handle->rank, to, place);
        }
    }
    int code = handle->alltoall(mine, all, bytes, handle);
    if (code != 0) {
        fail(handle->rank, "alltoall", code);
    }
    for (int from = 0; from < handle->size; from++) {
        for (int place = 0; place < bytes; place++) {
            if (all[from * bytes + place] != byte(from, handle->rank, place)) {
                fail(handle->rank, "a wrong byte of an alltoall", place);
            }
        }
    }
    free(mine);
    free(all);
}

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "no plugin");
        return 1;
    }
    int (*init)(void *, struct handle *, int);
    *(void **) &init = dlsym(plugin, "nvshmemi_bootstrap_plugin_init");
    if (init == NULL) {
        fail(-1, "no init", 0);
    }
    struct handle handle;
    memset(&handle, 0, sizeof(handle));
    int code = init(NULL, &handle, INTERFACE);
    if (code != 0) {
        fail(-1, "init", code);
    }
    for (int bytes = 1; bytes <= LONGEST; bytes *= 16) {
        allgather(&handle, bytes);
        alltoall(&handle, bytes);
    }
    code = handle.barrier(&handle);
    if (code != 0) {
        fail(handle.rank, "barrier", code);
    }
    if (argc > 2 && strcmp(argv[2], "abort") == 0) {
        if (handle.rank == handle.size - 1) {
            handle.global_exit(7);
            fail(handle.rank, "it goes on after the exit of the job", 7);
        }
        handle.barrier(&handle);
        fail(handle.rank, "the barrier of a job that ended", 0);
    }
    code = handle.finalize(&handle);
    if (code != 0) {
        fail(handle.rank, "finalize", code);
    }
    printf("rank %d of %d: nvshmem passed\n", handle.rank, handle.size);
    return 0;
}
