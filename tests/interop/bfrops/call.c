/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Single calls of the library on plain bytes. */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns zeroed memory with room after the end, for modules that write wider numbers than they read. */
void *data_room(unsigned type, size_t count)
{
    void *room = calloc(1, count * type_of(type)->size + 8 * (count + 1));
    if (NULL == room) {
        fputs("out of memory\n", stderr);
        exit(70);
    }
    return room;
}

pmix_status_t call_pack(text_t *out, unsigned type, const void *data, size_t count)
{
    pmix_data_buffer_t buffer;
    memset(&buffer, 0, sizeof(buffer));
    pmix_status_t status =
        PMIx_Data_pack(NULL, &buffer, (void *) data, (int32_t) count, (pmix_data_type_t) type);
    text_add(out, buffer.base_ptr, buffer.bytes_used);
    free(buffer.base_ptr);
    return status;
}

pmix_status_t call_unpack(char *bytes, size_t len, unsigned type, void *data, int32_t *count,
                          size_t *left)
{
    pmix_data_buffer_t buffer;
    memset(&buffer, 0, sizeof(buffer));
    /* Copy the bytes: the library treats them as its own memory while it unpacks. */
    buffer.base_ptr = data_room(PMIX_BYTE, len);
    memcpy(buffer.base_ptr, bytes, len);
    buffer.unpack_ptr = buffer.base_ptr;
    buffer.pack_ptr = buffer.base_ptr + len;
    buffer.bytes_allocated = buffer.bytes_used = len;
    pmix_status_t status = PMIx_Data_unpack(NULL, &buffer, data, count, (pmix_data_type_t) type);
    *left = (size_t) (buffer.base_ptr + len - buffer.unpack_ptr);
    free(buffer.base_ptr);
    return status;
}
