/* Binds the calling thread to one CPU, if the machine lets it. */
#define _GNU_SOURCE
#include <sched.h>
#include <caml/mlvalues.h>

value holdup_case_pin(value cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(Int_val(cpu), &one);
    sched_setaffinity(0, sizeof one, &one);
    return Val_unit;
}
