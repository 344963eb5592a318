/* Time that a machine takes from a program: the floor under the longest pause that can be
 * measured on it. A virtual machine loses its processor, or a page of its memory, to others
 * now and then; its kernel does not know, and counts the time as the program's own.
 *
 * Two loops, in turn, look at the clock every few microseconds: one only counts, the other
 * reads and writes words all over MIB of memory, as marking does. An interval in which the
 * kernel stopped the program, or got it a page, does not count.
 *
 *   lost_time [ROUNDS [SECONDS [MIB]]]      4 rounds of 30 seconds for each loop, 1024 MiB
 *
 * What jHiccup does for a Java process, in CPU time: https://github.com/giltene/jHiccup */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* An interval this long would show in a collector that stops a program for 1 ms. */
static const double LONG_MS = 0.8;

struct look {
    double cpu_ms;
    long stops_and_faults;
};

struct lost {
    double cpu_ms, longest_ms;
    long intervals, long_intervals;
};

static uint64_t *words;
static uint64_t word_count;

static struct look look(void)
{
    struct timespec cpu;
    struct rusage usage;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    getrusage(RUSAGE_THREAD, &usage);
    return (struct look){
        .cpu_ms = (double)cpu.tv_sec * 1e3 + (double)cpu.tv_nsec / 1e6,
        .stops_and_faults = usage.ru_nvcsw + usage.ru_nivcsw + usage.ru_minflt + usage.ru_majflt,
    };
}

static void count(void)
{
    for (volatile int i = 0; i < 15000; i++) {
    }
}

static void touch_memory(void)
{
    static uint64_t random = 88172645463325252u;
    for (int i = 0; i < 400; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        words[(random >> 30) % word_count] += random;
    }
}

static void run(void (*step)(void), double seconds, struct lost *lost)
{
    struct look last = look();
    double end_ms = last.cpu_ms + seconds * 1e3;
    while (last.cpu_ms < end_ms) {
        step();
        struct look now = look();
        double interval_ms = now.cpu_ms - last.cpu_ms;
        if (now.stops_and_faults == last.stops_and_faults) {
            lost->cpu_ms += interval_ms;
            lost->intervals++;
            lost->long_intervals += interval_ms >= LONG_MS;
            if (interval_ms > lost->longest_ms)
                lost->longest_ms = interval_ms;
        }
        last = now;
    }
}

static void print(const char *loop, const struct lost *lost)
{
    printf("| %s | %.0f | %.1f | %ld | %.2f |\n", loop, lost->cpu_ms / 1e3,
           lost->cpu_ms * 1e3 / (double)lost->intervals, lost->long_intervals, lost->longest_ms);
}

/* The number in the argument, or what it is without one. */
static long argument(int argc, char **argv, int index, const char *name, long otherwise, long max)
{
    if (argc <= index)
        return otherwise;
    char *end;
    long number = strtol(argv[index], &end, 10);
    if (end == argv[index] || *end != '\0' || number < 1 || number > max) {
        fprintf(stderr, "lost_time: %s is \"%s\"; give a whole number from 1 to %ld\n", name,
                argv[index], max);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    if (argc > 4) {
        fprintf(stderr, "lost_time: \"%s\" is one argument too many; see the head of lost_time.c\n", argv[4]);
        return 2;
    }
    long rounds = argument(argc, argv, 1, "ROUNDS", 4, 1000);
    long seconds = argument(argc, argv, 2, "SECONDS", 30, 3600);
    uint64_t bytes = (uint64_t)argument(argc, argv, 3, "MIB", 1024, 1 << 20) << 20;
    word_count = bytes / sizeof *words;
    words = malloc(bytes);
    if (words == NULL) {
        fprintf(stderr, "lost_time: no memory for %llu MiB; give fewer MIB\n",
                (unsigned long long)bytes >> 20);
        return 1;
    }
    for (uint64_t i = 0; i < word_count; i++)
        words[i] = i;

    struct lost counting = {0}, touching = {0};
    for (long round = 1; round <= rounds; round++) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rround %ld of %ld, %ld s each ", round, rounds, 2 * seconds);
        run(count, (double)seconds, &counting);
        run(touch_memory, (double)seconds, &touching);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    printf("| loop | CPU s | mean interval us | intervals of %.1f ms or more | longest ms |\n", LONG_MS);
    printf("| --- | ---: | ---: | ---: | ---: |\n");
    print("counts", &counting);
    print("reads and writes memory", &touching);
    return 0;
}
