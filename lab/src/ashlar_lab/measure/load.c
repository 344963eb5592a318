/* A constant-rate open-loop HTTP/1.1 client for loopback.
 *
 * Request i is due at start + i / rate, whatever the server does.  Latency runs from that intended moment to the
 * last byte of the answer, so a server that stalls is charged for every request that had to wait, not only for the
 * one it was answering (no coordinated omission).
 *
 * usage: load PORT RATE SECONDS CONNECTIONS RESULT PATH...
 * RESULT gets one line per request: its intended time and its latency in microseconds, or -1 when it failed; then
 * one line per path: `body INDEX HASH same|varies|none`, of the answers below status 400; `none`: there was no such answer.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
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

/* ---- where does the answer end? ----------------------------------------
 * RFC 9112, section 6.3, for answers to GET, the only method that is sent.  Lines may end in LF alone (section 2.2).
 */

enum { MORE = -1, BROKEN = -2 }; /* in place of a length: bytes are missing, or the rest of the stream cannot be read */
static const unsigned long LENGTH_MAX = 1UL << 40;

struct head {
    int status;
    enum { NO_BODY, CHUNKED, COUNTED, TO_THE_END } body;
    unsigned long length; /* of a COUNTED body */
    int closes;           /* the connection serves no further request */
};

struct span {
    const char *at;
    size_t length;
};

static int is(struct span text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.at, word, text.length) == 0;
}

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static struct span trimmed(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    while (at < end && is_blank(end[-1]))
        end--;
    return (struct span){at, (size_t)(end - at)};
}

/* Takes the first element from a list with commas; returns 0 when there is none. */
static int next_element(struct span *list, struct span *element)
{
    while (list->length) {
        const char *end = list->at + list->length, *comma = memchr(list->at, ',', list->length);
        *element = trimmed(list->at, comma ? comma : end);
        *list = comma ? (struct span){comma + 1, (size_t)(end - comma - 1)} : (struct span){end, 0};
        if (element->length)
            return 1;
    }
    return 0;
}

/* A number without sign, blank or prefix; returns how many digits it has, 0 when it has none or is beyond any body. */
static size_t digits(const char *at, const char *end, int base, unsigned long *number)
{
    size_t count = 0;
    for (*number = 0; at + count < end; count++) {
        const char *known = "0123456789abcdef", *found = at[count] ? strchr(known, tolower((unsigned char)at[count])) : NULL;
        if (!found || found - known >= base)
            break;
        *number = *number * (unsigned)base + (unsigned)(found - known);
        if (*number > LENGTH_MAX)
            return 0;
    }
    return count;
}

/* Bytes of the head with its empty line, 0 when more must come. */
static size_t head_size(const char *data, size_t used)
{
    const char *end = data + used, *line = data;
    while ((line = memchr(line, '\n', (size_t)(end - line)))) {
        line++;
        if (line < end && *line == '\n')
            return (size_t)(line - data) + 1;
        if (end - line >= 2 && line[0] == '\r' && line[1] == '\n')
            return (size_t)(line - data) + 2;
    }
    return 0;
}

/* Returns 0 when it is no head of HTTP/1, or its length cannot be believed. */
static int read_head(const char *data, size_t size, struct head *head)
{
    const char *end = data + size, *line = data;
    unsigned long status;
    if (size < 13 || strncmp(data, "HTTP/1.", 7) || data[8] != ' ' || digits(data + 9, end, 10, &status) != 3)
        return 0;
    int close = 0, keep_alive = 0, coded = 0, chunked = 0, counted = 0, contradicts = 0;
    unsigned long length = 0;
    while ((line = memchr(line, '\n', (size_t)(end - line))) && ++line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line)), *colon = stop ? memchr(line, ':', (size_t)(stop - line)) : NULL;
        if (!colon)
            continue;
        struct span name = {line, (size_t)(colon - line)}, list = {colon + 1, (size_t)(stop - colon - 1)}, one;
        if (is(name, "Connection"))
            while (next_element(&list, &one)) {
                close |= is(one, "close");
                keep_alive |= is(one, "keep-alive");
            }
        else if (is(name, "Transfer-Encoding"))
            for (; next_element(&list, &one); coded = 1)
                chunked = is(one, "chunked"); /* it counts where it is the last one */
        else if (is(name, "Content-Length")) {
            unsigned long found;
            contradicts |= trimmed(list.at, list.at + list.length).length == 0;
            for (; next_element(&list, &one); counted = 1, length = found)
                contradicts |= digits(one.at, one.at + one.length, 10, &found) != one.length || (counted && found != length);
        }
    }
    head->status = (int)status;
    head->length = length;
    head->closes = close || (data[7] == '0' && !keep_alive) || (coded && (counted || data[7] == '0'));
    head->body = status < 200 || status == 204 || status == 304 ? NO_BODY : coded ? (chunked ? CHUNKED : TO_THE_END) : counted ? COUNTED : TO_THE_END;
    return !(contradicts && !coded && head->body != NO_BODY);
}

static uint64_t hashed(uint64_t hash, const char *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)at[i]) * 1099511628211ULL; /* FNV-1a */
    return hash;
}

/* Bytes of a chunked body with its trailer, or MORE or BROKEN; what the chunks hold goes into `hash` where there is one. */
static long chunked_length(const char *body, size_t have, uint64_t *hash)
{
    const char *at = body, *end = body + have, *stop;
    unsigned long size;
    for (;;) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            return MORE;
        size_t count = digits(at, stop, 16, &size);
        struct span rest = trimmed(at + count, stop);
        if (!count || (rest.length && rest.at[0] != ';'))
            return BROKEN;
        at = stop + 1;
        if (!size)
            break;
        if ((size_t)(end - at) < size + 1)
            return MORE;
        if (hash)
            *hash = hashed(*hash, at, size);
        at += size;
        if (*at == '\r' && ++at == end)
            return MORE;
        if (*at++ != '\n')
            return BROKEN;
    }
    while ((stop = memchr(at, '\n', (size_t)(end - at)))) {
        size_t length = (size_t)(stop - at);
        at = stop + 1;
        if (length == 0 || (length == 1 && stop[-1] == '\r'))
            return at - body;
    }
    return MORE;
}

/* Bytes of the body in the stream, or MORE or BROKEN. `closed`: the server ended the connection. */
static long body_length(const struct head *head, const char *body, size_t have, int closed)
{
    switch (head->body) {
    case NO_BODY: return 0;
    case CHUNKED: return chunked_length(body, have, NULL);
    case COUNTED: return head->length <= have ? (long)head->length : MORE;
    default: return closed ? (long)have : MORE;
    }
}

static void note_body(int path, const struct head *head, const char *body, size_t length)
{
    uint64_t hash = 14695981039346656037ULL;
    if (head->body == CHUNKED)
        chunked_length(body, length, &hash);
    else
        hash = hashed(hash, body, length);
    if (!body_seen[path])
        body_hash[path] = hash;
    else if (body_hash[path] != hash)
        body_varies[path] = 1;
    body_seen[path] = 1;
}

/* Returns 1 when the request in flight is over: answered, or failed by an answer that cannot be read. */
static int try_complete(struct connection *c, int closed)
{
    struct head head;
    size_t start;
    for (;;) {
        start = head_size(c->data, c->used);
        if (!start)
            return 0;
        if (!read_head(c->data, start, &head) || head.status == 101) { /* 101: to a protocol that was not asked for */
            fail(c);
            return 1;
        }
        if (head.status >= 200)
            break;
        c->used -= start; /* an interim answer: the one that counts follows */
        memmove(c->data, c->data + start, c->used);
    }
    size_t have = c->used - start;
    long length = body_length(&head, c->data + start, have, closed);
    if (length == MORE)
        return 0;
    if (length == BROKEN) {
        fail(c);
        return 1;
    }
    int64_t latency = now_ns() - intended_ns(c->request);
    record(c->request, head.status < 400 ? latency : -1);
    if (head.status < 400)
        note_body((int)(c->request % paths), &head, c->data + start, (size_t)length);
    c->request = -1;
    c->used = 0;
    if (closed || head.closes || have > (size_t)length) /* bytes beyond the answer belong to nothing that was asked */
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
        if (c->request < 0) { /* nothing was asked, so this is no answer */
            disconnect(c);
            return;
        }
        c->used += (size_t)got;
        if (try_complete(c, 0))
            return;
    }
}

static void write_bodies(void)
{
    for (int i = 0; i < paths; i++)
        fprintf(result, "body %d %016llx %s\n", i, (unsigned long long)body_hash[i], !body_seen[i] ? "none" : body_varies[i] ? "varies" : "same");
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
