// Stops itself in places that are hard to unwind, and says before what another unwinder (libgcc's) sees there:
// lines "frame ADDRESS FUNCTION", the innermost first, then "end". The breakpoint is the tracer's.
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <ucontext.h>
#include <unwind.h>

#include <alloca.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#define FRAME extern "C" __attribute__((noipa))
#define KEEP asm volatile("" ::: "memory") /* so that the call before is not the function's last act */

static void *found[30000];

FRAME void stop_quietly()
{
	puts("end");
	fflush(stdout);
	asm volatile("int3" ::: "memory");
}

FRAME void stop_here()
{
	int count = backtrace(found, sizeof(found) / sizeof(*found));

	for (int i = 0; i < count; i++) {
		Dl_info about = {};

		dladdr((char *)found[i] - 1, &about);
		printf("frame %lx %s\n", (unsigned long)found[i], about.dli_sname ? about.dli_sname : "?");
	}
	puts("end");
	fflush(stdout);
	asm volatile("int3" ::: "memory");
}

FRAME int recursing(int depth)
{
	volatile int kept = depth;

	if (depth)
		recursing(depth - 1);
	else
		stop_here();
	return kept;
}

FRAME int with_alloca(int bytes)
{
	char *room = (char *)alloca(bytes);

	memset(room, 1, bytes);
	stop_here();
	return room[bytes / 2];
}

FRAME int realigned(int bytes)
{
	alignas(64) volatile char aligned[64] = {1};
	char *room = (char *)alloca(bytes);

	memset(room, 1, bytes);
	recursing(2);
	return aligned[3] + room[bytes - 1];
}

static void handler(int)
{
	stop_here();
	KEEP;
}

// The load may be its first instruction: the address before is another function's.
FRAME int faulting_leaf(volatile int *at) { return *at; }

static void fault(bool other_stack)
{
	struct sigaction action = {};

	if (other_stack) {
		stack_t stack = {};
		stack.ss_size = 1 << 17;
		stack.ss_sp = malloc(stack.ss_size);
		sigaltstack(&stack, nullptr);
		action.sa_flags = SA_ONSTACK;
	}
	action.sa_handler = handler;
	sigaction(SIGSEGV, &action, nullptr);
	faulting_leaf(nullptr);
	KEEP;
}

static int calls;

FRAME int comparing(const void *a, const void *b)
{
	if (calls++ == 3)
		stop_here();
	return *(const int *)a - *(const int *)b;
}

FRAME void sorting()
{
	int numbers[] = {5, 3, 9, 1, 7, 2};

	qsort(numbers, 6, sizeof(int), comparing);
	KEEP;
}

FRAME void cleaning()
{
	stop_here();
	KEEP;
}

struct Guard {
	~Guard() { cleaning(); }
};

FRAME void throwing(int depth)
{
	if (depth == 0)
		throw 7;
	throwing(depth - 1);
	KEEP;
}

FRAME void guarded()
{
	Guard guard;

	throwing(4);
	KEEP;
}

FRAME void catching()
{
	try {
		guarded();
	} catch (int) {
		KEEP;
	}
}

static _Unwind_Reason_Code at_each_frame(_Unwind_Context *, void *)
{
	if (calls++ == 2)
		stop_here();
	return _URC_NO_REASON;
}

FRAME void inside_unwinder()
{
	_Unwind_Backtrace(at_each_frame, nullptr);
	KEEP;
}

FRAME void *thread_start(void *)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	recursing(3);
	KEEP;
	return nullptr;
}

FRAME void in_thread()
{
	pthread_t thread;

	pthread_create(&thread, nullptr, thread_start, nullptr);
	pthread_join(thread, nullptr);
}

FRAME void in_cxx_thread()
{
	std::thread thread([] {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		recursing(1);
		KEEP;
	});
	thread.join();
}

FRAME void coroutine()
{
	recursing(2);
	KEEP;
}

static ucontext_t main_context, own_context;

FRAME void on_own_stack()
{
	getcontext(&own_context);
	own_context.uc_stack.ss_size = 1 << 20;
	own_context.uc_stack.ss_sp = malloc(1 << 20);
	own_context.uc_link = &main_context;
	makecontext(&own_context, coroutine, 0);
	swapcontext(&main_context, &own_context);
}

// Their descriptions are as wrong, absent or unusual as their names say.
asm(R"(
	.text
	.globl looping, undescribed, undescribed_with_frame, by_another_register, held, held_and_saved_far
	.type looping, @function
looping:
	.cfi_startproc
	subq $8, %rsp
	.cfi_def_cfa_offset 0
	call stop_quietly@PLT
	addq $8, %rsp
	ret
	.cfi_endproc
	.size looping, .-looping

	.type undescribed, @function
undescribed:
	pushq %rbp
	movl $1, %ebp
	call stop_quietly@PLT
	popq %rbp
	ret
	.size undescribed, .-undescribed

	.type undescribed_with_frame, @function
undescribed_with_frame:
	pushq %rbp
	movq %rsp, %rbp
	subq $48, %rsp
	call stop_quietly@PLT
	leave
	ret
	.size undescribed_with_frame, .-undescribed_with_frame

	.type by_another_register, @function
by_another_register:
	.cfi_startproc
	pushq %r12
	.cfi_def_cfa_offset 16
	.cfi_offset %r12, -16
	movq %rsp, %r12
	.cfi_def_cfa %r12, 16
	call stop_quietly@PLT
	popq %r12
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size by_another_register, .-by_another_register

	# As OCaml 5 calls C that does not allocate: bx keeps the frame, the callee (the first argument) has another stack.
	.type held, @function
held:
	.cfi_startproc
	pushq %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	movq %rsp, %rbx
	.cfi_def_cfa_register %rbx
	movq other_stack_top(%rip), %rsp
	call *%rdi
	movq %rbx, %rsp
	.cfi_def_cfa_register %rsp
	popq %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size held, .-held

	.type held_and_saved_far, @function
held_and_saved_far:
	.cfi_startproc
	subq $136, %rsp
	.cfi_def_cfa_offset 144
	movq %rbx, (%rsp)
	.cfi_offset %rbx, -144
	xorl %ebx, %ebx
	call stop_quietly@PLT
	movq (%rsp), %rbx
	.cfi_restore %rbx
	addq $136, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size held_and_saved_far, .-held_and_saved_far
)");
extern "C" void looping(), undescribed(), undescribed_with_frame(), by_another_register();
extern "C" void held(void (*call)()), held_and_saved_far();

alignas(16) static char other_stack[1 << 21];
extern "C" {
__attribute__((used)) char *other_stack_top = other_stack + sizeof(other_stack);
}

FRAME void without_bx()
{
	stop_here();
	KEEP;
}

// Saves bx, in which its caller's caller holds its frame, and uses it for something else.
FRAME void with_bx()
{
	asm volatile("xorl %%ebx, %%ebx" ::: "rbx");
	without_bx();
	KEEP;
}

FRAME void computing_with_bx()
{
	asm volatile("xorl %%ebx, %%ebx" ::: "rbx");
	free(malloc(calls));
	KEEP;
}

// Through lazily bound PLT entries, a callback, the vdso, vectorised string functions, realigned frames. No
// exception: where one lands, its unwinder rewrites the return addresses that the test knows.
FRAME void work()
{
	int numbers[] = {5, 3, 9, 1, 7, 2, 8};
	char text[100];
	timespec now;

	calls = 100;
	qsort(numbers, 7, sizeof(int), comparing);
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "%d %s %.3f %ld", numbers[2], "words", 2.5, strlen(getenv("PATH")));
	free(strdup(text));
	alignas(64) volatile char aligned[64] = {1};
	char *room = (char *)alloca(numbers[3] + 20);
	memset(room, aligned[0], 20);
	held(computing_with_bx);
	free(realloc(malloc(100), 1 << 20));
}

FRAME void stepped()
{
	stop_here();
	work();
	stop_quietly();
	KEEP;
}

static const struct {
	const char *name;
	void (*run)();
} places[] = {
	{"recursion", [] { recursing(30); KEEP; }},
	{"deep", [] { recursing(10000); KEEP; }},
	{"alloca", [] { with_alloca(3000); KEEP; }},
	{"realigned", [] { realigned(300); KEEP; }},
	{"signal", [] { fault(false); KEEP; }},
	{"signal-stack", [] { fault(true); KEEP; }},
	{"qsort", [] { sorting(); KEEP; }},
	{"exception", [] { catching(); KEEP; }},
	{"unwinder", [] { inside_unwinder(); KEEP; }},
	{"thread", [] { in_thread(); KEEP; }},
	{"cxx-thread", [] { in_cxx_thread(); KEEP; }},
	{"coroutine", [] { on_own_stack(); KEEP; }},
	{"loop", [] { looping(); KEEP; }},
	{"scan", [] { undescribed(); KEEP; }},
	{"frame-pointer", [] { undescribed_with_frame(); KEEP; }},
	{"held", [] { held(without_bx); KEEP; }},
	{"held-saved", [] { held(with_bx); KEEP; }},
	{"held-saved-far", [] { held(held_and_saved_far); KEEP; }},
	{"no-rule", [] { by_another_register(); KEEP; }},
	{"steps", [] { stepped(); KEEP; }},
};

int main(int, char **words)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	for (const auto &place : places)
		if (!strcmp(words[1], place.name))
			place.run();
}
