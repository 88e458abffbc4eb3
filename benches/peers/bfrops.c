/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Packing and unpacking by the library: bfrops OPERATION TYPE FILE COUNT RUNS CAP_MS.
 *
 * FILE holds calls of TYPE as packed by anyone: one call of COUNT data for `pack` and `unpack`,
 * COUNT calls of one datum for `pack-one` and `unpack-one`. The data are unpacked from it, so both
 * sides of a comparison work on the same. Making room and freeing are outside of the time. Prints
 * STATUS MIN_NS MEDIAN_NS RUNS BYTES. Callgrind counts what is inside of `measured`.
 */
#include "bfrops/data.h"
#include "bytes.h"
#include "timing.h"

#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

abilities_t abilities;

typedef struct {
    bool packs, singly;
    unsigned type;
    int32_t count;
    bytes_t packed;
    char *data;
    pmix_data_buffer_t buffer;
} work_t;

static pmix_status_t pack(work_t *work)
{
    int32_t step = work->singly ? 1 : work->count;
    size_t size = type_of(work->type)->size;
    pmix_status_t status = PMIX_SUCCESS;
    for (int32_t i = 0; i < work->count && PMIX_SUCCESS == status; i += step) {
        status = PMIx_Data_pack(NULL, &work->buffer, work->data + (size_t) i * size, step,
                                (pmix_data_type_t) work->type);
    }
    return status;
}

static pmix_status_t unpack(work_t *work)
{
    int32_t step = work->singly ? 1 : work->count;
    size_t size = type_of(work->type)->size;
    pmix_status_t status = PMIX_SUCCESS;
    for (int32_t i = 0; i < work->count && PMIX_SUCCESS == status; i += step) {
        int32_t count = step;
        status = PMIx_Data_unpack(NULL, &work->buffer, work->data + (size_t) i * size, &count,
                                  (pmix_data_type_t) work->type);
    }
    return status;
}

__attribute__((noinline)) static pmix_status_t measured(work_t *work)
{
    return work->packs ? pack(work) : unpack(work);
}

/* The buffer holds the bytes of the file, nothing of it unpacked yet. */
static void fill(work_t *work)
{
    size_t len = work->packed.len;
    pmix_data_buffer_t *buffer = &work->buffer;
    buffer->base_ptr = data_room(PMIX_BYTE, len);
    memcpy(buffer->base_ptr, work->packed.data, len);
    buffer->unpack_ptr = buffer->base_ptr;
    buffer->pack_ptr = buffer->base_ptr + len;
    buffer->bytes_allocated = buffer->bytes_used = len;
}

static void empty(work_t *work)
{
    free(work->buffer.base_ptr);
    memset(&work->buffer, 0, sizeof(work->buffer));
}

static void forget(work_t *work)
{
    data_release(work->type, work->data, (size_t) work->count);
    memset(work->data, 0, (size_t) work->count * type_of(work->type)->size);
}

static int once(void *context, uint64_t *took_ns, size_t *made)
{
    work_t *work = context;
    if (!work->packs) {
        forget(work);
        fill(work);
    }
    uint64_t start = clock_ns();
    pmix_status_t status = measured(work);
    *took_ns = clock_ns() - start;
    *made = work->buffer.bytes_used;
    if (work->packs && PMIX_SUCCESS == status
        && (work->buffer.bytes_used != work->packed.len
            || 0 != memcmp(work->buffer.base_ptr, work->packed.data, work->packed.len))) {
        status = PMIX_ERR_PACK_MISMATCH;
    }
    empty(work);
    return status;
}

int main(int argc, char **argv)
{
    work_t work;
    memset(&work, 0, sizeof(work));
    if (7 != argc || 0 == (work.type = type_by_name(argv[2]))
        || 0 != bytes_from_file(argv[3], &work.packed)) {
        fputs("usage: bfrops OPERATION TYPE FILE COUNT RUNS CAP_MS\n", stderr);
        return 2;
    }
    work.packs = 0 == strncmp(argv[1], "pack", 4);
    work.singly = NULL != strstr(argv[1], "-one");
    work.count = (int32_t) strtol(argv[4], NULL, 10);
    work.data = data_room(work.type, (size_t) work.count);
    if (PMIX_SUCCESS != PMIx_server_init(NULL, NULL, 0)) {
        return 1;
    }
    fill(&work);
    pmix_status_t status = work.packs ? unpack(&work) : PMIX_SUCCESS;
    empty(&work);
    if (PMIX_SUCCESS != status) {
        printf("%d 0 0 0 0\n", status);
        return 0;
    }
    print_timing(once, &work, (unsigned) strtoul(argv[5], NULL, 10),
                 (unsigned) strtoul(argv[6], NULL, 10));
    forget(&work);
    PMIx_server_finalize();
    return 0;
}
