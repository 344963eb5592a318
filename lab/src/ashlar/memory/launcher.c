/* The process between the lab and the measured command.
 *
 * Linux folds the memory high-water mark of the old image into ru_maxrss when
 * a process calls exec, so a command started by a large process inherits that
 * process's reading.  This program is small: it starts the command, samples the
 * memory of its whole process tree from /proc, waits, and writes what it saw as
 * lines of text.  It decides nothing; every rule is in the lab.
 *
 * One launcher measures one command.  It is the reaper of its descendants, so
 * that RUSAGE_CHILDREN is the sum over exactly that command's tree.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TREE_MAX = 4096, LAUNCHER_FAILED = 125 };

static struct {
    const char *result, *output, *errors, *directory, *cgroup, *library, *preload;
    long period_us, duty_permille, timeout_ms, grace_ms, turns_fd;
    int trace, snapshots, counters, foreground;
} option = {.period_us = 50000, .duty_permille = 4, .grace_ms = 500, .turns_fd = -1};

static FILE *result;
static pid_t child;
static int exec_failure;
static struct timespec start;

static int64_t since_start_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (t.tv_sec - start.tv_sec) * 1000000000LL + (t.tv_nsec - start.tv_nsec);
}

/* Since when this program looks away; -1 while it looks. */
static int64_t away_since_ns = -1;
static int64_t away_ns;

/* The time of the run.  It stands still while nobody looks. */
static int64_t now_ns(void)
{
    return (away_since_ns >= 0 ? away_since_ns : since_start_ns()) - away_ns;
}

/* The CPU time that this process has used.  What looking costs is told by that and not by the clock, so that a busy
 * machine, on which it waits for a core, does not make it look less often. */
static int64_t own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what, const char *value)
{
    fprintf(stderr, "ashlar-launcher: %s%s%s: %s\n", what, value ? " " : "", value ? value : "",
            strerror(errno));
    exit(LAUNCHER_FAILED);
}

/* ---- the process tree ------------------------------------------------- */

static struct { pid_t pid[TREE_MAX]; int count; } tree;

static int read_file(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t got;
    while (used < size - 1 && (got = read(fd, buffer + used, size - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    buffer[used] = 0;
    return (int)used;
}

/* Files of /proc that are read at every sample stay open: opening one costs several times what reading it does.
 * An open file belongs to one process for good and reads as nothing once that has ended, even when its number is in
 * use again.  Processes beyond the room here have their files opened anew each time. */
enum { KEPT_OPEN = 64 };
static struct kept { pid_t pid; int task, children, statm; unsigned last_sample; } kept[KEPT_OPEN];
static int kept_count;
static unsigned samples;

static int open_in_proc(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void close_kept(struct kept *k)
{
    close(k->task);
    close(k->children);
    close(k->statm);
    *k = kept[--kept_count];
}

static struct kept *keep_open(pid_t pid)
{
    if (kept_count == KEPT_OPEN)
        return NULL;
    char children[32];
    snprintf(children, sizeof children, "task/%d/children", pid);
    struct kept k = {pid, open_in_proc(pid, "task"), open_in_proc(pid, children), open_in_proc(pid, "statm"), samples};
    kept[kept_count++] = k;
    if (k.task < 0 || k.children < 0 || k.statm < 0) { /* it has ended, or no more files may be open */
        close_kept(&kept[kept_count - 1]);
        return NULL;
    }
    return &kept[kept_count - 1];
}

static struct kept *kept_files(pid_t pid)
{
    for (int i = 0; i < kept_count; i++)
        if (kept[i].pid == pid) {
            kept[i].last_sample = samples;
            return &kept[i];
        }
    return keep_open(pid);
}

/* Those of processes that were not in the tree this time: they have ended. */
static void close_files_of_the_ended(void)
{
    for (int i = 0; i < kept_count;)
        if (kept[i].last_sample != samples)
            close_kept(&kept[i]);
        else
            i++;
}

static int read_again(int fd, char *buffer, size_t size)
{
    ssize_t got = pread(fd, buffer, size - 1, 0);
    buffer[got > 0 ? got : 0] = 0;
    return (int)got;
}

static void add_pids_in(const char *text)
{
    for (const char *p = text; *p && tree.count < TREE_MAX;) {
        char *end;
        long pid = strtol(p, &end, 10);
        if (end == p)
            break;
        tree.pid[tree.count++] = (pid_t)pid;
        p = end + strspn(end, " \n");
    }
}

/* A child is listed under the thread that made it. */
static void add_children_of_every_thread(pid_t pid)
{
    static char text[65536];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return;
    for (struct dirent *entry; (entry = readdir(tasks));)
        if (isdigit((unsigned char)entry->d_name[0])) {
            char children[320];
            snprintf(children, sizeof children, "/proc/%d/task/%s/children", pid, entry->d_name);
            if (read_file(children, text, sizeof text) > 0)
                add_pids_in(text);
        }
    closedir(tasks);
}

/* The folder of a process's threads has two links and one for each of them. */
static int threads_of(const struct kept *files)
{
    struct stat task;
    return fstat(files->task, &task) == 0 ? (int)task.st_nlink - 2 : 0;
}

static void add_children_of(pid_t pid)
{
    char text[4096];
    struct kept *files = kept_files(pid);
    int threads = files ? threads_of(files) : 0;
    if (files && threads == 0) { /* ended, and its number may be another's now */
        close_kept(files);
        files = keep_open(pid);
        threads = files ? threads_of(files) : 0;
    }
    int got = threads == 1 ? read_again(files->children, text, sizeof text) : -1;
    if (got < 0 || got >= (int)sizeof text - 1)
        add_children_of_every_thread(pid);
    else
        add_pids_in(text);
}

/* Kernels without CONFIG_PROC_CHILDREN: every parent is read from /proc. */
static void add_children_by_scan(pid_t parent)
{
    DIR *processes = opendir("/proc");
    if (!processes)
        return;
    for (struct dirent *entry; (entry = readdir(processes)) && tree.count < TREE_MAX;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        char path[300], text[1024];
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        if (read_file(path, text, sizeof text) <= 0)
            continue;
        char *after_name = strrchr(text, ')');
        int ppid = 0;
        if (after_name && sscanf(after_name + 1, " %*c %d", &ppid) == 1 && ppid == parent)
            tree.pid[tree.count++] = atoi(entry->d_name);
    }
    closedir(processes);
}

/* All living descendants of this process, parents before children. */
static void find_tree(void)
{
    static int has_children_files = -1;
    if (has_children_files < 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
        has_children_files = access(path, R_OK) == 0;
    }
    tree.count = 0;
    pid_t parent = getpid();
    for (int next = 0;; parent = tree.pid[next++]) {
        if (has_children_files)
            add_children_of(parent);
        else
            add_children_by_scan(parent);
        if (next >= tree.count)
            break;
    }
    close_files_of_the_ended();
    samples++;
}

/* ---- memory of one process -------------------------------------------- */

struct memory { long size_kb, rss_kb, pss_kb, private_kb, swap_kb, hwm_kb; };

static long page_kb;

static int read_statm(pid_t pid, struct memory *m)
{
    char path[64], text[256], *end;
    struct kept *files = kept_files(pid);
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    if ((files ? read_again(files->statm, text, sizeof text) : read_file(path, text, sizeof text)) <= 0)
        return 0;
    m->size_kb = strtol(text, &end, 10) * page_kb;
    m->rss_kb = strtol(end, NULL, 10) * page_kb;
    return 1;
}

static long field_kb(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

static int read_rollup(pid_t pid, struct memory *m)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (read_file(path, text, sizeof text) <= 0)
        return 0;
    m->rss_kb = field_kb(text, "\nRss:");
    m->pss_kb = field_kb(text, "\nPss:");
    m->private_kb = field_kb(text, "\nPrivate_Clean:") + field_kb(text, "\nPrivate_Dirty:");
    m->swap_kb = field_kb(text, "\nSwap:");
    return 1;
}

static long read_hwm_kb(pid_t pid)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return read_file(path, text, sizeof text) > 0 ? field_kb(text, "\nVmHWM:") : 0;
}

/* A process may have any name, and none; here it is one word. */
static void read_name(pid_t pid, char *name, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int length = read_file(path, name, size);
    if (length > 0 && name[length - 1] == '\n')
        name[length - 1] = 0;
    if (length < 0 || !*name)
        strcpy(name, "?");
    for (char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            *p = '_';
}

/* ---- is the intended library mapped? ---------------------------------- */

static int library_found;

static void look_for_library(pid_t pid)
{
    if (!option.library || library_found)
        return;
    char path[64], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return;
    while (getline(&line, &size, maps) > 0)
        if (strstr(line, option.library)) {
            char *file = strchr(line, '/');
            line[strcspn(line, "\n")] = 0;
            fprintf(result, "mapped %lld %s\n", (long long)now_ns() / 1000, file ? file : line);
            library_found = 1;
            break;
        }
    free(line);
    fclose(maps);
}

/* ---- sampling ---------------------------------------------------------- */

static int64_t next_sample_ns, next_pss_ns, next_library_ns;
static int processes_max;
static long snapshot_rss_kb;

/* The peak of a tree is told by PSS alone, and it may last for less than the pause between two readings: where the sum
 * of RSS is NEW_HIGH above what it was at any reading, the next one comes after a tenth of the pause.  PSS that grows
 * while that sum does not (forked processes write to pages that they shared) does not bring it forward. */
#define NEW_HIGH 0.05
static int64_t next_pss_at_new_high_ns;
static long pss_rss_max_kb;

/* Each kind of sampling (RSS by statm, PSS by smaps_rollup) keeps its cost under a duty cycle: a slow walk is repeated
 * less often, never more often than asked.  At new highs PSS has ten times its share. */
static int64_t pause_after(int64_t cost_ns, int64_t period_ns, double duty)
{
    int64_t paid = duty > 0 ? (int64_t)((double)cost_ns / duty) : INT64_MAX / 4;
    return paid > period_ns ? paid : period_ns;
}

/* What a kind of sampling has cost lately, for each unit of its work. */
struct costs { double per_unit_ns[4]; unsigned next; };

/* What this reading cost, going by the cheapest of the latest four: a virtual machine that loses its processor counts
 * the time as the launcher's own, some ms at once, and these would be followed by seconds without a look. */
static int64_t usual_cost_ns(struct costs *costs, int64_t cost_ns, long units)
{
    double least = (double)cost_ns / (double)units;
    costs->per_unit_ns[costs->next++ % 4] = least;
    for (unsigned i = 0; i < 4 && i < costs->next; i++)
        if (costs->per_unit_ns[i] < least)
            least = costs->per_unit_ns[i];
    return (int64_t)(least * (double)units);
}

/* The share of one core that reading PSS may take.  Of a tree it is the only measure that counts shared pages once; of a
 * single process the kernel's high-water mark is the exact peak and a statm the RSS, so PSS need not be read as often. */
static double pss_duty(void)
{
    double duty = (double)option.duty_permille / 1000;
    return tree.count > 1 || option.snapshots ? duty : duty / 4;
}

/* PSS of so much RSS has been read, from this CPU time of the launcher on: when it may be read next. */
static void put_off_pss(int64_t cpu_before, long rss_kb)
{
    static struct costs costs; /* a unit is a KiB of RSS: page tables are walked */
    int64_t after = now_ns(), cost = usual_cost_ns(&costs, own_cpu_ns() - cpu_before, rss_kb + 1);
    next_pss_ns = after + pause_after(cost, option.period_us * 1000, pss_duty());
    next_pss_at_new_high_ns = after + pause_after(cost, option.period_us * 1000, 10 * pss_duty());
}

static void sample_pss(long rss_kb)
{
    struct memory sum = {0};
    int64_t at = now_ns(), cpu_before = own_cpu_ns();
    int read = 0;
    for (int i = 0; i < tree.count; i++) {
        struct memory m = {0};
        if (!read_rollup(tree.pid[i], &m))
            continue;
        read = 1;
        sum.rss_kb += m.rss_kb;
        sum.pss_kb += m.pss_kb;
        sum.private_kb += m.private_kb;
        sum.swap_kb += m.swap_kb;
    }
    if (read)
        fprintf(result, "pss %lld %ld %ld %ld %ld\n", (long long)at / 1000, sum.pss_kb,
                sum.private_kb, sum.rss_kb, sum.swap_kb);
    if (rss_kb > pss_rss_max_kb)
        pss_rss_max_kb = rss_kb;
    put_off_pss(cpu_before, rss_kb);
}

static int pss_is_due(int64_t now, long rss_kb)
{
    int new_high = tree.count > 1 && (double)rss_kb > (1 + NEW_HIGH) * (double)pss_rss_max_kb;
    return now >= next_pss_ns || (new_high && !option.snapshots && now >= next_pss_at_new_high_ns);
}

/* The memory of every process of the tree, one line each, under one heading. */
static void snapshot(const char *heading)
{
    long rss = 0;
    long long at_us = (long long)now_ns() / 1000;
    for (int i = 0; i < tree.count; i++) {
        struct memory m = {0};
        char name[64];
        if (!read_statm(tree.pid[i], &m) || !read_rollup(tree.pid[i], &m))
            continue;
        m.hwm_kb = read_hwm_kb(tree.pid[i]);
        read_name(tree.pid[i], name, sizeof name);
        fprintf(result, "%s %lld %d %s %ld %ld %ld %ld %ld %ld\n", heading,
                at_us, tree.pid[i], name, m.size_kb, m.rss_kb, m.pss_kb,
                m.private_kb, m.swap_kb, m.hwm_kb);
        rss += m.rss_kb;
    }
    if (rss > snapshot_rss_kb)
        snapshot_rss_kb = rss;
}

static void sample(void)
{
    static struct costs costs; /* a unit is a process */
    int64_t at = now_ns(), cpu_before = own_cpu_ns();
    long rss_kb = 0;
    int processes = 0;
    find_tree();
    for (int i = 0; i < tree.count; i++) {
        struct memory m = {0};
        if (read_statm(tree.pid[i], &m) && m.rss_kb > 0) {
            rss_kb += m.rss_kb;
            processes++;
        }
    }
    if (processes)
        fprintf(result, "sample %lld %ld %d\n", (long long)at / 1000, rss_kb, processes);
    if (processes > processes_max)
        processes_max = processes;
    int64_t after = now_ns(), cost = usual_cost_ns(&costs, own_cpu_ns() - cpu_before, tree.count + 1);
    next_sample_ns = after + pause_after(cost, option.period_us * 1000, (double)option.duty_permille / 1000);
    if (option.library && !library_found && after >= next_library_ns) {
        for (int i = 0; i < tree.count; i++)
            look_for_library(tree.pid[i]);
        next_library_ns = after + after / 2; /* soon at first, then seldom */
    }
    if (!processes || option.duty_permille <= 0 || !pss_is_due(after, rss_kb))
        return;
    if (!option.snapshots)
        sample_pss(rss_kb);
    else if (rss_kb > snapshot_rss_kb + snapshot_rss_kb / 50) {
        cpu_before = own_cpu_ns();
        snapshot("peak");
        put_off_pss(cpu_before, rss_kb);
    }
}

/* ---- performance counters ---------------------------------------------- */

static struct counter { const char *name; uint32_t type; uint64_t config; int fd, error, user_only; } counter[] = {
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1, 0, 0},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, -1, 0, 0},
    {"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, -1, 0, 0},
    {"branch_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, -1, 0, 0},
    {"dtlb_misses", PERF_TYPE_HW_CACHE,
     PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16, -1, 0, 0},
    {"cpu_migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, -1, 0, 0},
};
enum { COUNTERS = sizeof counter / sizeof counter[0] };

static void open_counters(pid_t pid)
{
    for (int i = 0; i < COUNTERS; i++) {
        struct perf_event_attr attr = {.size = sizeof attr, .type = counter[i].type,
            .config = counter[i].config, .disabled = 1, .inherit = 1, .enable_on_exec = 1,
            .exclude_hv = 1, .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
        for (int user_only = 0; user_only < 2 && counter[i].fd < 0; user_only++) {
            attr.exclude_kernel = (unsigned)user_only;
            counter[i].fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
            counter[i].error = errno;
            counter[i].user_only = user_only;
        }
    }
}

static void switch_counters(int on)
{
    for (int i = 0; i < COUNTERS; i++)
        if (counter[i].fd >= 0)
            ioctl(counter[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static void write_counters(void)
{
    for (int i = 0; i < COUNTERS; i++) {
        uint64_t v[3];
        if (counter[i].fd < 0)
            fprintf(result, "no_counter %s %s\n", counter[i].name, strerror(counter[i].error));
        else if (read(counter[i].fd, v, sizeof v) != sizeof v || (v[1] && !v[2]))
            fprintf(result, "no_counter %s the counter never ran\n", counter[i].name);
        else /* scaled up when the counter shared its register with others */
            fprintf(result, "counter %s %.0f\n", counter[i].name,
                    v[2] ? (double)v[0] * (double)v[1] / (double)v[2] : (double)v[0]);
    }
}

/* ---- starting and stopping --------------------------------------------- */

static void redirect(const char *path, int flags, int fd)
{
    int opened = open(path, flags, 0600);
    if (opened < 0)
        die("cannot open", path);
    dup2(opened, fd);
    close(opened);
}

static void become_command(char **command, int go, int failed)
{
    char byte;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!option.foreground)
        setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (!option.foreground)
        redirect("/dev/null", O_RDONLY, 0);
    if (option.output)
        redirect(option.output, O_WRONLY | O_CREAT | O_TRUNC, 1);
    if (option.errors)
        redirect(option.errors, O_WRONLY | O_CREAT | O_TRUNC, 2);
    if (option.cgroup) {
        int fd = open(option.cgroup, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
            die("cannot enter cgroup", option.cgroup);
        close(fd);
    }
    if (option.directory && chdir(option.directory) != 0)
        die("cannot enter directory", option.directory);
    /* Set here and not by the lab, so that it never loads into this program. */
    if (option.preload && setenv("LD_PRELOAD", option.preload, 1) != 0)
        die("cannot preload", option.preload);
    if (read(go, &byte, 1) != 1)
        _exit(LAUNCHER_FAILED);
    execvp(command[0], command);
    int error = errno;
    if (write(failed, &error, sizeof error) < 0)
        _exit(LAUNCHER_FAILED);
    _exit(127);
}

static void start_command(char **command)
{
    int go[2], failed[2];
    if (pipe2(go, O_CLOEXEC) || pipe2(failed, O_CLOEXEC))
        die("pipe", NULL);
    child = fork();
    if (child < 0)
        die("fork", NULL);
    if (child == 0)
        become_command(command, go[0], failed[1]);
    close(go[0]);
    close(failed[1]);
    if (option.counters)
        open_counters(child);
    if (option.trace) {
        long events = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                      PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
        if (ptrace(PTRACE_SEIZE, child, NULL, (void *)events) != 0) {
            fprintf(result, "no_trace %s\n", strerror(errno));
            option.trace = 0;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (write(go[1], "g", 1) != 1)
        die("cannot start", command[0]);
    close(go[1]);
    exec_failure = failed[0];
}

/* The child writes errno here when exec fails; a successful exec closes it.
 * Read at the end, because a traced exec stops until the main loop continues it. */
static void write_exec_failure(void)
{
    int error;
    if (read(exec_failure, &error, sizeof error) == sizeof error)
        fprintf(result, "exec_failed %s\n", strerror(error));
}

static void kill_tree(int signal_number)
{
    find_tree();
    for (int i = 0; i < tree.count; i++)
        kill(tree.pid[i], signal_number);
}

/* ---- tracing ------------------------------------------------------------ */

static void at_exit_of(pid_t thread)
{
    look_for_library(thread);
    find_tree();
    if (thread == child)
        snapshot("at_exit");
    else
        for (int i = 0; i < tree.count; i++)
            if (tree.pid[i] == thread) {
                tree.pid[0] = thread;
                tree.count = 1;
                snapshot("process_exit");
            }
}

static void handle_stop(pid_t thread, int status)
{
    int signal_number = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_EXIT)
        at_exit_of(thread);
    if (event == PTRACE_EVENT_STOP &&
        (signal_number == SIGSTOP || signal_number == SIGTSTP || signal_number == SIGTTIN || signal_number == SIGTTOU)) {
        ptrace(PTRACE_LISTEN, thread, NULL, NULL);
        return;
    }
    ptrace(PTRACE_CONT, thread, NULL, (void *)(long)(event ? 0 : signal_number));
}

/* ---- the main loop ------------------------------------------------------ */

static int child_ended, child_status;
static int64_t child_ended_ns;

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
        if (WIFSTOPPED(status))
            handle_stop(pid, status);
        else if (pid == child) {
            child_ended_ns = now_ns();
            child_ended = 1;
            child_status = status;
        }
    }
}

/* ---- looking away -------------------------------------------------------- */

/* SIGUSR2 ends all watching of the running command, SIGCONT begins it again: `ashlar-lab overhead` compares the two within
 * one process.  Time stands still meanwhile, so that a watched second sees as much of each kind of sampling as a second of an
 * ordinary run.  In a run that takes turns with others the command stands still, too. */

enum { LONG_ROUNDS = 20, HOLD_ROUNDS = 200 };

/* Stopped, or ended.  One that has been waiting for a disk, or for a child that is about to call exec, since LONG_ROUNDS
 * rounds is taken to be: it stops before it runs again. */
static int is_at_rest(pid_t pid, int round)
{
    char path[64], text[1024], state;
    int threads;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_file(path, text, sizeof text) <= 0)
        return 1;
    char *after_name = strrchr(text, ')');
    if (!after_name || sscanf(after_name + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &state, &threads) != 2)
        return 1;
    if (state == 'Z') /* of several threads the first may have ended alone */
        return threads <= 1;
    return state == 'T' || state == 't' || state == 'X' || (state == 'D' && round >= LONG_ROUNDS);
}

static int tree_is_at_rest(int round)
{
    for (int i = 0; i < tree.count; i++)
        if (!is_at_rest(tree.pid[i], round))
            return 0;
    return 1;
}

/* Stops every process.  A process that was at rest in one round made none before the next, so two such rounds have found all.
 * What is long in the kernel is not waited for longer than HOLD_ROUNDS, about 20 ms. */
static void hold_tree(void)
{
    struct timespec moment = {0, 50000};
    for (int round = 0, rests = 0; round < HOLD_ROUNDS && rests < 2; round++) {
        kill_tree(SIGSTOP);
        if (tree_is_at_rest(round)) {
            rests++;
        } else {
            rests = 0;
            nanosleep(&moment, NULL);
        }
    }
}

/* Children before their parents: the kernel hangs up on stopped processes whose parent ends. */
static void release_tree(void)
{
    find_tree();
    for (int i = tree.count - 1; i >= 0; i--)
        kill(tree.pid[i], SIGCONT);
}

/* Where nobody reads it the lab has ended, and SIGTERM is on its way. */
static void tell_turns(const char *what)
{
    if (option.turns_fd >= 0)
        (void)!write((int)option.turns_fd, what, 1);
}

static void look_away(void)
{
    if (away_since_ns >= 0) { /* this signal has overtaken the SIGCONT before it, so the turn was over before it began */
        sigset_t overtaken;
        struct timespec none = {0, 0};
        sigemptyset(&overtaken);
        sigaddset(&overtaken, SIGCONT);
        if (option.turns_fd >= 0 && sigtimedwait(&overtaken, NULL, &none) == SIGCONT)
            tell_turns("h");
        return;
    }
    if (option.turns_fd >= 0) {
        hold_tree();
        reap();
        if (child_ended) { /* what it left behind ends as in any run */
            release_tree();
            return;
        }
    }
    away_since_ns = since_start_ns();
    switch_counters(0);
    tell_turns("h");
}

static void look_again(void)
{
    if (away_since_ns < 0)
        return;
    away_ns += since_start_ns() - away_since_ns;
    away_since_ns = -1;
    switch_counters(1);
    if (option.turns_fd >= 0)
        release_tree();
}

static void run(void)
{
    sigset_t awaited;
    int64_t kill_at_ns = 0;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGUSR1);
    sigaddset(&awaited, SIGUSR2);
    sigaddset(&awaited, SIGCONT);
    next_sample_ns = 2000000; /* a first look soon, for commands that end early */
    while (!child_ended) {
        int64_t wake = option.period_us ? next_sample_ns : INT64_MAX;
        if (option.timeout_ms && option.timeout_ms * 1000000LL < wake)
            wake = option.timeout_ms * 1000000LL;
        if (kill_at_ns && kill_at_ns < wake)
            wake = kill_at_ns;
        if (away_since_ns >= 0) /* no time comes while time stands still */
            wake = INT64_MAX;
        int64_t left = wake - now_ns();
        if (left < 0)
            left = 0;
        if (left > 3600000000000LL)
            left = 3600000000000LL;
        struct timespec wait = {left / 1000000000, left % 1000000000};
        int got = sigtimedwait(&awaited, NULL, &wait);
        if (got == SIGCHLD)
            reap();
        if (child_ended)
            break;
        /* In the foreground the terminal has sent SIGINT to the command, too, which does what it wants to do then. */
        if (got == SIGTERM || (got == SIGINT && !option.foreground)) {
            look_again();
            fprintf(result, "stopped %lld\n", (long long)now_ns() / 1000);
            kill(child, SIGTERM);
            kill_at_ns = now_ns() + option.grace_ms * 1000000LL;
        } else if (got == SIGUSR1) {
            find_tree();
            snapshot("mark");
            fflush(result);
        } else if (got == SIGUSR2) {
            look_away();
        } else if (got == SIGCONT) {
            look_again();
        }
        int64_t t = now_ns();
        if (option.timeout_ms && t >= option.timeout_ms * 1000000LL && !kill_at_ns) {
            fprintf(result, "timeout\n");
            kill(child, SIGTERM);
            kill_at_ns = t + option.grace_ms * 1000000LL;
            option.timeout_ms = 0;
        }
        if (kill_at_ns && t >= kill_at_ns) {
            fprintf(result, "killed\n");
            kill_tree(SIGKILL);
            kill_at_ns = t + 1000000000;
        }
        if (option.period_us && away_since_ns < 0 && t >= next_sample_ns)
            sample();
    }
}

/* Whoever outlives the command: given a moment, then killed and counted. */
static void clear_away_the_rest(void)
{
    struct timespec moment = {0, 10000000};
    int counted = 0;
    for (int round = 0; round < 500; round++) {
        reap();
        find_tree();
        if (!tree.count)
            break;
        if (round >= 10) {
            if (!counted)
                fprintf(result, "left_behind %d\n", counted = tree.count);
            kill_tree(SIGKILL);
        }
        nanosleep(&moment, NULL);
    }
}

static void write_result(void)
{
    struct rusage used, own;
    getrusage(RUSAGE_CHILDREN, &used);
    getrusage(RUSAGE_SELF, &own);
    write_exec_failure();
    if (option.counters)
        write_counters();
    fprintf(result, "wall_ns %lld\nuser_us %lld\nsys_us %lld\nmax_rss_kb %ld\n", (long long)child_ended_ns,
            used.ru_utime.tv_sec * 1000000LL + used.ru_utime.tv_usec,
            used.ru_stime.tv_sec * 1000000LL + used.ru_stime.tv_usec, used.ru_maxrss);
    fprintf(result, "minor_faults %ld\nmajor_faults %ld\nvoluntary_switches %ld\ninvoluntary_switches %ld\n",
            used.ru_minflt, used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw);
    fprintf(result, "processes_max %d\nlauncher_us %lld\nlauncher_max_rss_kb %ld\n", processes_max,
            own.ru_utime.tv_sec * 1000000LL + own.ru_utime.tv_usec + own.ru_stime.tv_sec * 1000000LL +
                own.ru_stime.tv_usec,
            read_hwm_kb(getpid()));
    if (WIFSIGNALED(child_status))
        fprintf(result, "signal %d\n", WTERMSIG(child_status));
    else
        fprintf(result, "exit %d\n", WEXITSTATUS(child_status));
    fprintf(result, "end\n");
}

/* ---- options ------------------------------------------------------------ */

static int text_option(const char *name, const char *wanted, const char **to, char **value)
{
    if (strcmp(name, wanted) != 0)
        return 0;
    *to = *value;
    return 1;
}

static int number_option(const char *name, const char *wanted, long *to, char **value)
{
    if (strcmp(name, wanted) != 0)
        return 0;
    char *end;
    *to = strtol(*value, &end, 10);
    if (*end || end == *value || *to < 0) {
        errno = EINVAL;
        die(name, *value);
    }
    return 1;
}

static char **parse(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            option.trace = option.snapshots = 1;
            continue;
        }
        if (strcmp(argv[i], "--foreground") == 0) {
            option.foreground = 1;
            continue;
        }
        if (strcmp(argv[i], "--counters") == 0) {
            option.counters = 1;
            continue;
        }
        char *name = argv[i], **value = &argv[i + 1];
        errno = EINVAL;
        if (++i >= argc)
            die("missing value after", name);
        if (!text_option(name, "--result", &option.result, value) &&
            !text_option(name, "--output", &option.output, value) &&
            !text_option(name, "--errors", &option.errors, value) &&
            !text_option(name, "--directory", &option.directory, value) &&
            !text_option(name, "--cgroup", &option.cgroup, value) &&
            !text_option(name, "--preload", &option.preload, value) &&
            !text_option(name, "--library", &option.library, value) &&
            !number_option(name, "--period-us", &option.period_us, value) &&
            !number_option(name, "--duty-permille", &option.duty_permille, value) &&
            !number_option(name, "--timeout-ms", &option.timeout_ms, value) &&
            !number_option(name, "--turns-fd", &option.turns_fd, value) &&
            !number_option(name, "--grace-ms", &option.grace_ms, value))
            die("unknown option", name);
    }
    errno = EINVAL;
    if (i + 1 >= argc || !option.result)
        die("usage: ashlar-launcher --result FILE [options] -- COMMAND", NULL);
    return argv + i + 1;
}

int main(int argc, char **argv)
{
    char **command = parse(argc, argv);
    sigset_t blocked;
    page_kb = sysconf(_SC_PAGESIZE) / 1024;
    result = fopen(option.result, "we");
    if (!result)
        die("cannot write", option.result);
    if (option.turns_fd >= 0)
        fcntl((int)option.turns_fd, F_SETFD, FD_CLOEXEC);
    sigfillset(&blocked);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    tell_turns("r");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    start_command(command);
    run();
    clear_away_the_rest();
    write_result();
    if (fclose(result) != 0)
        die("cannot write", option.result);
    return 0;
}
