/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registers of a function's integer arguments at its entry, in the System V calling convention for x86-64,
 * and registers of other conventions. Facts about a binary's instructions are in
 * crates/decode/src/probes/arguments.rs.
 */
#ifndef HOLDUP_ARGUMENTS_X86_64_H
#define HOLDUP_ARGUMENTS_X86_64_H

/* A power of two, so that a number from user space can be made an index that the verifier believes. */
#define ARGUMENTS 8

static __always_inline void read_arguments(const struct pt_regs *regs, __u64 arguments[ARGUMENTS])
{
	arguments[0] = regs->di;
	arguments[1] = regs->si;
	arguments[2] = regs->dx;
	arguments[3] = regs->cx;
	arguments[4] = regs->r8;
	arguments[5] = regs->r9;
	/* Nothing names these. */
	arguments[6] = 0;
	arguments[7] = 0;
}

#define REGISTERS 16

/* Words of struct pt_regs that hold the registers, in the order in which instructions number them. */
const __u8 register_words[REGISTERS] SEC(".rodata.registers") = { 10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0 };

/*
 * Value of the register with the instruction encoding `number`, 0 if not readable. One at a time, because all
 * registers would take a quarter of the BPF stack.
 */
static __always_inline __u64 register_at(struct pt_regs *regs, __u32 number)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)regs + register_words[number % REGISTERS] * sizeof(value));
	return value;
}

#endif
