// A function makes a frame and jumps to code that runs on it without own unwind information. GHC's StgRun
// does so for Haskell code. That code calls the breakpoint. Prints the return address of the function's
// caller, as a line "frame ADDRESS FUNCTION".
#include <stdio.h>
#include <sys/ptrace.h>

asm(R"(
	.text
	.globl lending, lent_and_called
	.type lending, @function
lending:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	leaq undescribed(%rip), %rdi
	call lend
lent_and_called:
	popq %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size lending, .-lending

	.type lend, @function
lend:
	.cfi_startproc
	subq $48, %rsp
	movq %rsp, %rax
	subq $16384, %rsp
	movq %rbp, 8(%rax)
	movq %r15, 40(%rax)
	.cfi_def_cfa %rsp, 0
	.cfi_offset %rbp, 16392
	.cfi_offset %rip, 16432
	.cfi_escape 0x16, 0x07, 0x04, 0x77, 0xb8, 0x80, 0x01
	jmp *%rdi
	.cfi_endproc
	.size lend, .-lend

	.balign 16
	.type undescribed, @function
undescribed:
	xorl %ebp, %ebp
	subq $8, %rsp
	call stop_quietly
	addq $8, %rsp
	addq $16384, %rsp
	movq 8(%rsp), %rbp
	addq $48, %rsp
	ret
	.size undescribed, .-undescribed
)");
void lending(void), lent_and_called(void);

__attribute__((noipa)) void stop_quietly(void)
{
	puts("end");
	fflush(stdout);
	asm volatile("int3" ::: "memory");
}

int main(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	printf("frame 0 stop_quietly\nframe %lx lending\n", (unsigned long)lent_and_called);
	lending();
	return 0;
}
