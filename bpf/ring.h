/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The main ring: each CPU has a part of its own, in slots of one size, that user space maps. To put a record there
 * takes no lock and no call, which BPF_MAP_TYPE_RINGBUF needs; a slot is two cache lines that belong to this CPU.
 * Nobody is woken. User space's side is crates/capture/src/bpf/slots.rs.
 */
#ifndef HOLDUP_RING_H
#define HOLDUP_RING_H

/* Both grow to `cpus` and `slots_per_cpu` of the configuration before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_slot);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_ring_ends);
} ring_ends SEC(".maps");

/* Left free: interrupts' programs may each take a slot between a look at the room and the taking. */
#define SLOTS_SPARE 8

/*
 * Room for a record of at most WIRE_RECORD_MAX bytes on this CPU; 0: the ring is full. `interrupts`: they may come
 * meanwhile, and take slots themselves.
 */
static __always_inline void *reserve_record(__u32 bytes, bool interrupts)
{
	__u32 cpu = bpf_get_smp_processor_id(), at;
	struct wire_ring_ends *ends = bpf_map_lookup_elem(&ring_ends, &cpu);
	struct wire_slot *slot;
	__u64 position;

	if (!ends)
		return 0; /* a CPU that came after the recording began */
	position = ends->taken;
	if (position - ends->read > configuration.slots_per_cpu - SLOTS_SPARE)
		return 0;
	if (interrupts)
		position = __sync_fetch_and_add(&ends->taken, 1);
	else
		ends->taken = position + 1;
	at = cpu * configuration.slots_per_cpu + ((__u32)position & (configuration.slots_per_cpu - 1));
	slot = bpf_map_lookup_elem(&records, &at);
	if (!slot)
		return 0; /* never: the ring has slots for every CPU that has ends */
	slot->complete = (__u32)position;
	slot->bytes = bytes;
	return slot->record;
}

/* The record is whole: what was written before is seen before this. */
static __always_inline void submit_record(void *record)
{
	struct wire_slot *slot = record - __builtin_offsetof(struct wire_slot, record);

#ifdef __TARGET_ARCH_x86
	asm volatile("" ::: "memory"); /* stores are seen in their order */
	slot->complete++;
#else
	__sync_fetch_and_add(&slot->complete, 1);
#endif
}

#endif
