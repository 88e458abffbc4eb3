/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Maps MIB of shared memory COUNT times, so that the kernel needs long to report the memory of this process. Then
 * creates the file PATH and stays: mapped COUNT MIB PATH. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int fd = memfd_create("mapped", 0);
    size_t size;

    if (argc != 4 || fd < 0) {
        return 1;
    }
    size = (size_t) atoi(argv[2]) << 20;
    if (ftruncate(fd, (off_t) size) != 0) {
        return 2;
    }
    for (int number = atoi(argv[1]); number > 0; number--) {
        if (mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) == MAP_FAILED) {
            return 3;
        }
    }
    if (open(argv[3], O_CREAT | O_WRONLY, 0600) < 0) {
        return 4;
    }
    for (;;) {
        pause();
    }
}
