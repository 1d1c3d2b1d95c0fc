/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the integer arguments of a function are when it is entered: System V's calling convention for x86-64; and registers of
 * other conventions. What is said of
 * a binary's instructions is beside it (crates/decode/src/probes/arguments.rs).
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

/* All, numbered as instructions do. */
static __always_inline void read_registers(const struct pt_regs *regs, __u64 registers[REGISTERS])
{
	registers[0] = regs->ax;
	registers[1] = regs->cx;
	registers[2] = regs->dx;
	registers[3] = regs->bx;
	registers[4] = regs->sp;
	registers[5] = regs->bp;
	registers[6] = regs->si;
	registers[7] = regs->di;
	registers[8] = regs->r8;
	registers[9] = regs->r9;
	registers[10] = regs->r10;
	registers[11] = regs->r11;
	registers[12] = regs->r12;
	registers[13] = regs->r13;
	registers[14] = regs->r14;
	registers[15] = regs->r15;
}

#endif
