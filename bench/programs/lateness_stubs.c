/* What OCaml's library has no word for: CPUs, the clock, and calls that keep the runtime's lock. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <caml/mlvalues.h>

#define PAGE 4096

value late_unused(value unit)
{
    return unit;
}

intnat late_now(value unit)
{
    struct timespec at;
    (void)unit;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

intnat late_tid(value unit)
{
    (void)unit;
    return syscall(SYS_gettid);
}

/* How long the calling thread has run (ns). */
intnat late_ran(value unit)
{
    struct timespec ran;
    (void)unit;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return ran.tv_sec * 1000000000L + ran.tv_nsec;
}

static cpu_set_t may;

__attribute__((constructor)) static void look_where(void)
{
    sched_getaffinity(0, sizeof may, &may);
}

/* Binds the calling thread to one of the CPUs that the program may use. A negative number counts from the
 * last one.
 */
intnat late_pin(intnat wanted)
{
    cpu_set_t one;
    int count = CPU_COUNT(&may), place = 0;
    wanted = wanted < 0 ? count + wanted : wanted;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may) || place++ != wanted)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return sched_setaffinity(0, sizeof one, &one);
    }
    return -1;
}

/* The calling thread, and those that it starts, run when others do not want to. */
intnat late_give_way(value unit)
{
    (void)unit;
    return setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19);
}

intnat late_sleep(intnat ms)
{
    struct timespec length = {ms / 1000, ms % 1000 * 1000000};
    return nanosleep(&length, NULL);
}

intnat late_compute(intnat ms)
{
    intnat until = late_now(Val_unit) + ms * 1000000;
    uint64_t x = 88172645463325252u;
    while (late_now(Val_unit) < until)
        for (int i = 0; i < 10000; i++)
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (intnat)(x & 0xff);
}

static char *memory = MAP_FAILED;
static const size_t length = (size_t)256 << 20;

/* Touches fresh memory, page by page, for that long. */
intnat late_touch(intnat ms)
{
    intnat until = late_now(Val_unit) + ms * 1000000;
    memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    madvise(memory, length, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < length && late_now(Val_unit) < until; at += PAGE)
        memory[at] = 1;
    return 0;
}

/* Returns touched pages to the kernel. */
intnat late_give_back(value unit)
{
    (void)unit;
    return memory == MAP_FAILED ? 0 : munmap(memory, length);
}
