/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The usual calls of a program: a put, a collecting fence, a get. */
#define _GNU_SOURCE
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define DATA 1024

int main(void)
{
    char text[DATA + 1];
    begin();
    memset(text, 'a' + (int) (me.rank % 26), DATA);
    text[DATA] = '\0';
    put_text(PMIX_GLOBAL, "s.card", text);
    must("PMIx_Commit", PMIx_Commit());
    fence_all(true);
    pmix_rank_t next = (me.rank + 1) % size;
    char *card = get_text(next, "s.card");
    require(strlen(card) == DATA && card[0] == 'a' + (int) (next % 26));
    free(card);
    end();
    return 0;
}
