/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `hello SIZE`: OpenSHMEM. Every process puts into the memory of the next one, gets from the previous one and adds
 * to a number of the first one, and all compute a sum. Exits with 1 on a wrong result. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

static int from_before, total, own, sum;
static int work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long sync_data[SHMEM_REDUCE_SYNC_SIZE];

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "hello, process %d: not so: %s\n", shmem_my_pe(), what);
        shmem_global_exit(1);
    }
}

int main(int argc, char **argv)
{
    int size, me, next, before;
    int *heap;

    (void) argc;
    for (size_t i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) {
        sync_data[i] = SHMEM_SYNC_VALUE;
    }
    shmem_init();
    me = shmem_my_pe();
    size = shmem_n_pes();
    require(size == atoi(argv[1]), "there are as many processes as were started");
    next = (me + 1) % size;
    before = (me + size - 1) % size;

    heap = shmem_malloc(sizeof(*heap));
    require(NULL != heap, "there is memory to share");
    *heap = 100 + me;
    own = 1 + me;
    shmem_barrier_all();
    shmem_int_p(&from_before, 10 + me, next);
    require(100 + before == shmem_int_g(heap, before), "what the one before has can be read");
    shmem_int_atomic_add(&total, 1 + me, 0);
    shmem_barrier_all();
    require(10 + before == from_before, "what the one before wrote is here");
    require(0 != me || size * (size + 1) / 2 == total, "all have added to the number of the first");
    shmem_int_sum_to_all(&sum, &own, 1, 0, 0, size, work, sync_data);
    require(size * (size + 1) / 2 == sum, "the sum of all is right");
    shmem_barrier_all();
    shmem_free(heap);
    if (0 == me) {
        printf("%d processes of OpenSHMEM are content\n", size);
    }
    shmem_finalize();
    return 0;
}
