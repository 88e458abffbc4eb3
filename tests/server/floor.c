/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `floor CLIENTS ROUNDS`: measures the processor time that the kernel alone needs for a fence. Each client sends a
 * message of the size of a fence over TCP; after all have arrived, each gets a message of the size of the reply.
 * Without PMIx and bookkeeping, this is a lower bound for a real server. Prints the minimum of several batches for
 * one round as JSON. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUEST 64
#define ANSWER 20
#define BATCHES 5

static void must(int fine, const char *what)
{
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static uint64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void send_at_once(int socket, size_t len)
{
    static const char bytes[REQUEST];
    must((ssize_t) len == send(socket, bytes, len, MSG_NOSIGNAL), "send");
}

/* So short a message arrives in one piece. */
static void receive(int socket, size_t len)
{
    char bytes[4096];
    must((ssize_t) len == recv(socket, bytes, sizeof(bytes), 0), "recv");
}

static void be_client(const struct sockaddr_in *address, unsigned rounds)
{
    int one = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    must(0 == connect(server, (const struct sockaddr *) address, sizeof(*address)), "connect");
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (unsigned i = 0; i < rounds; i++) {
        send_at_once(server, REQUEST);
        receive(server, ANSWER);
    }
    _exit(0);
}

static void serve(int epoll, const int *clients, unsigned num_clients)
{
    struct epoll_event events[256];
    for (unsigned arrived = 0; arrived < num_clients;) {
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++, arrived++) {
            receive(events[i].data.fd, REQUEST);
        }
    }
    for (unsigned i = 0; i < num_clients; i++) {
        send_at_once(clients[i], ANSWER);
    }
}

int main(int argc, char **argv)
{
    must(3 == argc, "usage: floor CLIENTS ROUNDS");
    unsigned num_clients = (unsigned) atoi(argv[1]), rounds = (unsigned) atoi(argv[2]);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    must(0 == bind(listener, (struct sockaddr *) &address, len), "bind");
    must(0 == listen(listener, (int) num_clients), "listen");
    must(0 == getsockname(listener, (struct sockaddr *) &address, &len), "getsockname");
    for (unsigned i = 0; i < num_clients; i++) {
        if (0 == fork()) {
            be_client(&address, rounds * BATCHES);
        }
    }
    int *clients = calloc(num_clients, sizeof(*clients));
    for (unsigned i = 0; i < num_clients; i++) {
        clients[i] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        must(clients[i] >= 0, "accept");
        setsockopt(clients[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = clients[i]};
        must(0 == epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i], &event), "epoll_ctl");
    }
    uint64_t least = UINT64_MAX;
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        uint64_t before = processor_ns();
        for (unsigned i = 0; i < rounds; i++) {
            serve(epoll, clients, num_clients);
        }
        uint64_t used = (processor_ns() - before) / rounds;
        least = used < least ? used : least;
    }
    printf("{\"cpu_ns\":%lu}\n", (unsigned long) least);
    while (wait(NULL) > 0) {
    }
    return 0;
}
