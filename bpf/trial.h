/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program that does nothing, on an event that a thread can bring about itself: what it costs, every program costs. */
#ifndef HOLDUP_TRIAL_H
#define HOLDUP_TRIAL_H

/* Attached for a moment, before anything else is (crates/capture/src/bpf/entry.rs). */
SEC("tp_btf/itimer_state")
int on_nothing(void *ctx)
{
	return 0;
}

#endif
