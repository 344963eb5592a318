/*
 * Has the system refuse calls to a program, as a container may:
 *   refuse_calls mremap=EPERM madvise=ENOSYS madvise:23=EINVAL -- program argument ...
 * NAME=ERROR refuses every such call, NAME:ADVICE=ERROR those with this third argument.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the number of this processor's system calls is not known here"
#endif

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skipped))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))

static const struct { const char *name; unsigned number; } calls[] = {
    {"madvise", SYS_madvise}, {"memfd_create", SYS_memfd_create}, {"mprotect", SYS_mprotect},
    {"mremap", SYS_mremap}, {"munmap", SYS_munmap}, {"prctl", SYS_prctl},
};
static const struct { const char *name; unsigned number; } errors[] = {
    {"EACCES", EACCES}, {"EINVAL", EINVAL}, {"ENOMEM", ENOMEM}, {"ENOSYS", ENOSYS}, {"EPERM", EPERM},
};

static void
wrong(const char *argument, const char *wanted)
{
    fprintf(stderr, "refuse_calls: %s: %s is wanted\n", argument, wanted);
    exit(2);
}

#define NUMBER(table, text, length) \
    for (size_t i = 0; i < LENGTH(table); i++) \
        if (strlen(table[i].name) == (length) && !strncmp(table[i].name, (text), (length))) return table[i].number

static unsigned
call_number(const char *argument, size_t length)
{
    NUMBER(calls, argument, length);
    wrong(argument, "madvise, memfd_create, mprotect, mremap, munmap or prctl before the `=`");
    return 0;
}

static unsigned
error_number(const char *argument, const char *error)
{
    NUMBER(errors, error, strlen(error));
    wrong(argument, "EACCES, EINVAL, ENOMEM, ENOSYS or EPERM behind the `=`");
    return 0;
}

/* Adds what refuses one sort of call; returns the place behind it. */
static struct sock_filter *
add(struct sock_filter *place, const char *argument)
{
    const char *equals = strchr(argument, '='), *colon = strchr(argument, ':');
    if (!equals) wrong(argument, "NAME=ERROR");
    if (colon > equals) colon = NULL;
    unsigned call = call_number(argument, (size_t)((colon ? colon : equals) - argument));
    unsigned error = error_number(argument, equals + 1);
    *place++ = (struct sock_filter)LOAD(nr);
    *place++ = (struct sock_filter)SKIP_UNLESS(call, colon ? 3 : 1);
    if (colon) {
        *place++ = (struct sock_filter)LOAD(args[2]);
        *place++ = (struct sock_filter)SKIP_UNLESS((unsigned)strtoul(colon + 1, NULL, 10), 1);
    }
    *place++ = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | error);
    return place;
}

int
main(int count, char **arguments)
{
    static const struct sock_filter begin[] = {
        LOAD(arch), SKIP_UNLESS(ARCHITECTURE, 1), BPF_STMT(BPF_JMP | BPF_JA, 1), RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter *filter = calloc(LENGTH(begin) + 5 * (size_t)count + 1, sizeof(*filter)), *place = filter;
    if (!filter) return 2;
    memcpy(place, begin, sizeof(begin));
    place += LENGTH(begin);
    int next = 1;
    while (next < count && strcmp(arguments[next], "--")) place = add(place, arguments[next++]);
    if (next + 1 >= count) wrong(arguments[count - 1], "`--` and a program");
    *place++ = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)(place - filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("refuse_calls: the system does not filter calls");
        return 3;
    }
    execvp(arguments[next + 1], arguments + next + 1);
    perror(arguments[next + 1]);
    return 127;
}
