# What threads keep of payloads, when they end and when another thread forks: programs in C, whose malloc the library is.

def c_program(source)
  program = compiled("program", "#define _GNU_SOURCE\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#{source}", "-pthread")
  done = Subject.command(Subject.serving_malloc, [program], folder:, limit: 120)
  check(done.ok?) { done.describe }
  check_equal("ok\n", done.out)
end

# The resident set in KiB, and a check that it grows by less than 2 MiB while threads start and end one after another.
THREADS_COME_AND_GO = <<~'C'
  static long rss_kib(void)
  {
      long all, resident;
      FILE *file = fopen("/proc/self/statm", "r");
      if (fscanf(file, "%ld %ld", &all, &resident) != 2) abort();
      fclose(file);
      return resident * (sysconf(_SC_PAGESIZE) / 1024);
  }

  static int threads_come_and_go(void *(*work)(void *))
  {
      long before = 0;
      for (int n = 0; n < 10000; n++) {
          pthread_t thread;
          if (pthread_create(&thread, NULL, work, NULL)) abort();
          pthread_join(thread, NULL);
          if (n == 1000) before = rss_kib();
      }
      long grown = rss_kib() - before;
      return grown < 2048 ? puts("ok") < 0 : (printf("grown by %ld KiB\n", grown), 1);
  }
C

claim "threads whose memory the C library frees after they have ended leave nothing behind", only: "module" do
  c_program(<<~C)
    #include <unistd.h>
    #{THREADS_COME_AND_GO}
    /* The text of an unknown error is the thread's, and freed after all that the thread can do. */
    static void *work(void *unused) { return strerror(12345) ? NULL : unused; }
    int main(void) { return threads_come_and_go(work); }
  C
end

claim "threads that allocate and free when others have been told of their end leave nothing behind", only: "module" do
  c_program(<<~C)
    #include <unistd.h>
    #{THREADS_COME_AND_GO}
    static pthread_key_t key;

    /* Called again and again, as often as the C library does that. */
    static void ends(void *memory)
    {
        void *taken[300];
        free(memory);
        for (int n = 0; n < 300; n++) memset(taken[n] = malloc(1 + n * 7), n, 1 + n * 7);
        for (int n = 0; n < 300; n++) {
            taken[n] = realloc(taken[n], 2 + n * 11);
            if (*(unsigned char *)taken[n] != n % 256) abort();
            free(taken[n]);
        }
        pthread_setspecific(key, calloc(1, 40));
    }
    static void *work(void *unused) { pthread_setspecific(key, malloc(100)); return unused; }

    /* The library hears of the end first: it has been used first. The last round's memory is
       nobody's: 10,000 times 40 bytes. */
    int main(void)
    {
        void *volatile first = malloc(1);
        free(first);
        pthread_key_create(&key, ends);
        return threads_come_and_go(work);
    }
  C
end

claim "a forked child gets what the caches of more than 4,096 threads had", only: "module" do
  c_program(<<~'C')
    #include <limits.h>
    #include <stdint.h>
    #include <sys/wait.h>
    #include <unistd.h>

    enum { THREADS = 4400, PIECES = 32, ALL = THREADS * PIECES };
    static uintptr_t freed[ALL];
    static pthread_barrier_t all_have_freed, may_end;

    static void *work(void *number)
    {
        void *mine[PIECES];
        for (int n = 0; n < PIECES; n++) mine[n] = malloc(64);
        for (int n = 0; n < PIECES; n++) freed[(intptr_t)number * PIECES + n] = (uintptr_t)mine[n];
        for (int n = 0; n < PIECES; n++) free(mine[n]);
        pthread_barrier_wait(&all_have_freed);
        pthread_barrier_wait(&may_end);
        return NULL;
    }

    static int by_address(const void *a, const void *b)
    {
        uintptr_t one = *(const uintptr_t *)a, other = *(const uintptr_t *)b;
        return one < other ? -1 : one > other;
    }

    /* Allocates until all that was free has been handed out, or far more than that. */
    static int child(void)
    {
        int found = 0;
        for (int n = 0; n < 8 * ALL && found < ALL; n++) {
            uintptr_t piece = (uintptr_t)malloc(64);
            found += bsearch(&piece, freed, ALL, sizeof *freed, by_address) != NULL;
        }
        if (found == ALL) return 0;
        printf("%d of %d\n", found, ALL);
        return 1;
    }

    int main(void)
    {
        static pthread_t threads[THREADS];
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + 16384);
        pthread_barrier_init(&all_have_freed, NULL, THREADS + 1);
        pthread_barrier_init(&may_end, NULL, THREADS + 1);
        for (intptr_t n = 0; n < THREADS; n++) {
            if (pthread_create(&threads[n], &attributes, work, (void *)n)) return puts("no thread"), 2;
        }
        pthread_barrier_wait(&all_have_freed);
        qsort(freed, ALL, sizeof *freed, by_address);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            int failed = child();
            fflush(stdout);
            _exit(failed);
        }
        int status;
        waitpid(pid, &status, 0);
        pthread_barrier_wait(&may_end);
        for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
        if (status) return 1;
        return puts("ok") < 0;
    }
  C
end

claim "functions that a program has called at a fork, before and after the library's own, allocate", only: "module" do
  c_program(<<~'C')
    #include <sys/wait.h>
    #include <unistd.h>

    /* More than a thread keeps, of all sizes. */
    static void allocate(void)
    {
        static void *kept[1500];
        for (int n = 0; n < 1500; n++) memset(kept[n] = realloc(malloc(n), 3 * n + 1), 1, 3 * n + 1);
        for (int n = 0; n < 1500; n++) free(kept[n]);
    }

    static void *work(void *unused) { for (int n = 0; n < 30000; n++) { void *volatile memory = malloc(n); free(memory); } return unused; }

    static int forks(void)
    {
        for (int n = 0; n < 5; n++) {
            pid_t pid = fork();
            if (pid == 0) { allocate(); _exit(0); }
            int status;
            waitpid(pid, &status, 0);
            if (status) return 1;
        }
        return 0;
    }

    int main(void)
    {
        /* Nobody has allocated yet, so the library's own functions come behind these. */
        pthread_atfork(allocate, allocate, allocate);
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL)) return 2;
        if (forks()) return 1;
        pthread_atfork(allocate, allocate, allocate);
        if (forks()) return 1;
        pthread_join(thread, NULL);
        return puts("ok") < 0;
    }
  C
end

claim "threads fork at the same time, and what the program has called then has a lock of its own while it allocates", only: "module" do
  c_program(<<~'C')
    #include <sys/wait.h>
    #include <unistd.h>

    enum { THREADS = 4, FORKS = 100 };
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

    static void allocate(void)
    {
        for (int n = 1; n < 100; n++) {
            void *volatile memory = malloc(n);
            free(memory);
        }
    }
    static void begin(void) { pthread_mutex_lock(&own); allocate(); }
    static void end(void) { allocate(); pthread_mutex_unlock(&own); }

    static void *forks(void *failed)
    {
        for (int n = 0; n < FORKS; n++) {
            int status;
            pid_t pid = fork();
            if (pid == 0) { begin(); end(); _exit(0); }
            if (pid < 0 || waitpid(pid, &status, 0) != pid || status) return failed;
        }
        return NULL;
    }

    int main(void)
    {
        /* Nobody has allocated yet, so the library's own functions come behind these. */
        pthread_atfork(begin, end, end);
        pthread_t threads[THREADS];
        void *failed = NULL, *one;
        for (int n = 0; n < THREADS; n++) if (pthread_create(&threads[n], NULL, forks, &own)) return 2;
        for (int n = 0; n < THREADS; n++) {
            pthread_join(threads[n], &one);
            if (one) failed = one;
        }
        return failed ? 1 : puts("ok") < 0;
    }
  C
end
