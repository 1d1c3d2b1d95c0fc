// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Entry point: one object of all kernel programs, so that they share maps. */
#include "holdup_core.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "common.h"
#include "call_x86_64.h"
#include "ring.h"
#include "stacks.h"
#include "file_names.h"
#include "socket_names.h"
#include "waits.h"
#include "paging.h"
#include "reclaim.h"
#include "sched.h"
#include "lifecycle.h"
#include "counters.h"
#include "samples.h"
#include "snapshot.h"
#include "calls.h"
#include "ring_operations.h"
#include "allocs.h"
#include "spans.h"
#include "tasks.h"
#include "trial.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
