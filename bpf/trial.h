/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An empty program on an event that a thread can trigger itself. Its cost is the minimum cost of every program. */
#ifndef HOLDUP_TRIAL_H
#define HOLDUP_TRIAL_H

/* Attached for a moment, before anything else is (crates/capture/src/bpf/entry.rs). */
SEC("tp_btf/itimer_state")
int on_nothing(void *ctx)
{
	return 0;
}

#endif
