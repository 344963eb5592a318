/* A constant-rate open-loop HTTP/1.1 client for loopback.
 *
 * Request i is due at start + i / rate, whatever the server does.  Latency runs from that intended moment to the
 * last byte of the answer, so a server that stalls is charged for every request that had to wait, not only for the
 * one it was answering (no coordinated omission).
 *
 * usage: load PORT RATE SECONDS CONNECTIONS RESULT PATH...
 * RESULT gets one line per request: its intended time and its latency in microseconds, or -1 when it failed; then
 * one line per path: `body INDEX HASH same|varies`.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, PATHS_MAX = 256, DRAIN_S = 5 };

struct connection {
    int fd;           /* -1: closed */
    int64_t request;  /* index in flight, -1: idle */
    char *data;       /* the answer so far */
    size_t used, size, unsent;
    char *text;       /* the request, and how much of it is not yet sent */
};

static struct connection connection[CONNECTIONS_MAX];
static char *request_text[PATHS_MAX];
static uint64_t body_hash[PATHS_MAX];
static char body_seen[PATHS_MAX], body_varies[PATHS_MAX];
static int paths, connections, port;
static FILE *result;
static struct timespec start;
static double rate;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (t.tv_sec - start.tv_sec) * 1000000000LL + (t.tv_nsec - start.tv_nsec);
}

static int64_t intended_ns(int64_t request) { return (int64_t)((double)request * 1e9 / rate); }

static void record(int64_t request, int64_t latency_ns)
{
    fprintf(result, "%lld %lld\n", (long long)intended_ns(request) / 1000, latency_ns < 0 ? -1LL : (long long)latency_ns / 1000);
}

static void disconnect(struct connection *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->used = 0;
}

static int reconnect(struct connection *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return 0;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS)
        return 1;
    disconnect(c);
    return 0;
}

static void fail(struct connection *c)
{
    if (c->request >= 0)
        record(c->request, -1);
    c->request = -1;
    disconnect(c);
}

static void send_rest(struct connection *c)
{
    while (c->unsent) {
        size_t length = strlen(c->text);
        ssize_t sent = send(c->fd, c->text + length - c->unsent, c->unsent, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
                fail(c);
            return;
        }
        c->unsent -= (size_t)sent;
    }
}

static void begin(struct connection *c, int64_t request)
{
    c->request = request;
    c->used = 0;
    if (c->fd < 0 && !reconnect(c)) {
        fail(c);
        return;
    }
    c->text = request_text[request % paths];
    c->unsent = strlen(c->text);
    send_rest(c);
}

/* ---- is the answer complete? ------------------------------------------- */

static const char *header(const char *head, const char *name)
{
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0)
            return line + 2 + strlen(name) + strspn(line + 2 + strlen(name), " ");
    return NULL;
}

/* Length of the body in bytes of the stream, -1 when more must come. `closed`: the server ended the connection. */
static long body_length(char *body, size_t have, const char *head, int closed)
{
    const char *encoding = header(head, "Transfer-Encoding:"), *length = header(head, "Content-Length:");
    if (encoding && strncasecmp(encoding, "chunked", 7) == 0) {
        size_t at = 0;
        for (;;) {
            char *end, *line = memmem(body + at, have - at, "\r\n", 2);
            if (!line)
                return -1;
            unsigned long size = strtoul(body + at, &end, 16);
            at = (size_t)(line - body) + 2 + size + 2;
            if (at > have)
                return -1;
            if (size == 0)
                return (long)at;
        }
    }
    if (length) {
        long wanted = strtol(length, NULL, 10);
        return (size_t)wanted <= have ? wanted : -1;
    }
    return closed ? (long)have : -1;
}

static void note_body(int path, const char *body, size_t length)
{
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)body[i]) * 1099511628211ULL;
    if (!body_seen[path])
        body_hash[path] = hash;
    else if (body_hash[path] != hash)
        body_varies[path] = 1;
    body_seen[path] = 1;
}

/* Returns 1 when the request in flight has been answered. */
static int try_complete(struct connection *c, int closed)
{
    c->data[c->used] = 0;
    char *end = memmem(c->data, c->used, "\r\n\r\n", 4);
    if (!end)
        return 0;
    char *body = end + 4;
    end[2] = 0; /* the head is a string of its own from here */
    long length = body_length(body, c->used - (size_t)(body - c->data), c->data, closed);
    int status = 0;
    sscanf(c->data, "HTTP/%*s %d", &status);
    const char *how = header(c->data, "Connection:");
    int close_after = closed || strncmp(c->data, "HTTP/1.0", 8) == 0 || (how && strncasecmp(how, "close", 5) == 0);
    end[2] = '\r';
    if (length < 0)
        return 0;
    int64_t latency = now_ns() - intended_ns(c->request);
    record(c->request, status >= 200 && status < 400 ? latency : -1);
    note_body((int)(c->request % paths), body, (size_t)length);
    c->request = -1;
    c->used = 0;
    if (close_after)
        disconnect(c);
    return 1;
}

static void receive(struct connection *c)
{
    for (;;) {
        if (c->size - c->used < 65536) {
            c->size = c->size * 2 + 131072;
            c->data = realloc(c->data, c->size);
            if (!c->data)
                exit(1);
        }
        ssize_t got = recv(c->fd, c->data + c->used, c->size - c->used - 1, 0);
        if (got < 0) {
            if (errno != EAGAIN && errno != EINTR)
                fail(c);
            return;
        }
        if (got == 0) {
            if (c->request >= 0 && (c->used == 0 || !try_complete(c, 1)))
                fail(c);
            disconnect(c);
            return;
        }
        c->used += (size_t)got;
        if (c->request < 0 || try_complete(c, 0))
            return;
    }
}

static void write_bodies(void)
{
    for (int i = 0; i < paths; i++)
        fprintf(result, "body %d %016llx %s\n", i, (unsigned long long)body_hash[i], body_varies[i] ? "varies" : "same");
}

int main(int argc, char **argv)
{
    if (argc < 7 || argc - 6 > PATHS_MAX) {
        fprintf(stderr, "usage: load PORT RATE SECONDS CONNECTIONS RESULT PATH...\n");
        return 2;
    }
    port = atoi(argv[1]);
    rate = atof(argv[2]);
    int64_t total = (int64_t)(rate * atof(argv[3]));
    connections = atoi(argv[4]);
    if (connections > CONNECTIONS_MAX)
        connections = CONNECTIONS_MAX;
    result = fopen(argv[5], "we");
    if (!result)
        return 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (paths = 0; paths < argc - 6; paths++)
        if (asprintf(&request_text[paths], "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: */*\r\n\r\n", argv[6 + paths], port) < 0)
            return 1;
    for (int i = 0; i < connections; i++)
        connection[i] = (struct connection){.fd = -1, .request = -1};
    clock_gettime(CLOCK_MONOTONIC, &start);
    int64_t next = 0, give_up = intended_ns(total) + DRAIN_S * 1000000000LL;
    for (;;) {
        struct pollfd waiting[CONNECTIONS_MAX];
        int busy = 0, idle = 0;
        int64_t now = now_ns();
        for (int i = 0; i < connections; i++) {
            struct connection *c = &connection[i];
            if (c->request < 0 && next < total && intended_ns(next) <= now)
                begin(c, next++);
            busy += c->request >= 0;
            idle += c->request < 0;
            waiting[i] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (c->request >= 0 && c->unsent ? POLLOUT : 0))};
        }
        if ((next >= total && !busy) || now >= give_up)
            break;
        int64_t left = idle && next < total ? intended_ns(next) - now_ns() : give_up - now;
        if (left < 0)
            left = 0;
        struct timespec wait = {left / 1000000000, left % 1000000000};
        ppoll(waiting, (nfds_t)connections, &wait, NULL);
        for (int i = 0; i < connections; i++) {
            struct connection *c = &connection[i];
            if (c->fd < 0 || c->fd != waiting[i].fd || !waiting[i].revents)
                continue;
            if (waiting[i].revents & POLLOUT)
                send_rest(c);
            if (c->fd >= 0 && (waiting[i].revents & (POLLIN | POLLERR | POLLHUP)))
                receive(c);
        }
    }
    for (int i = 0; i < connections; i++)
        fail(&connection[i]);
    for (; next < total; next++) /* due, but the server left no connection free to send it */
        record(next, -1);
    write_bodies();
    return fclose(result) == 0 ? 0 : 1;
}
