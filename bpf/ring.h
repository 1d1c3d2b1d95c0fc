/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The main ring: each CPU has its own part, in slots of one size, mapped by user space. Writing a record
 * takes no lock and no helper call, unlike BPF_MAP_TYPE_RINGBUF. A slot is two cache lines that belong to
 * this CPU. Writing wakes no thread. The reading side is crates/capture/src/bpf/slots.rs.
 */
#ifndef HOLDUP_RING_H
#define HOLDUP_RING_H

/* Grows before loading to the slots of all places (crates/capture/src/bpf/slots.rs). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_slot);
} records SEC(".maps");

/* User space sleeps for long where little comes. An empty record of the small ring wakes it. */
static __always_inline void ring_bell(void)
{
	void *record = bpf_ringbuf_reserve(&definitions, 8, 0);

	if (record)
		bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
}

/*
 * Slots left free, because programs in interrupts may each take a slot between the check for space and the
 * reservation.
 */
#define SLOTS_SPARE 8

/*
 * Reads how much of the ring was consumed, which is another CPU's cache line. Called when the ring may be
 * half full, and when it may be full. At half, user space is woken, because after a quiet time, a burst would
 * be over before it reads.
 */
static __noinline bool find_room(struct wire_ring_ends *end, __u64 position)
{
	__u64 place = claim_place(end), read = end->read, slots, half, all;

	if (!place)
		return false;
	slots = 1ULL << (place >> 48);
	half = slots / 2;
	all = slots - SLOTS_SPARE;

	if (position - read < half) {
		end->free_until = read + half;
		return true;
	}
	end->free_until = read + all;
	if (position >= end->free_until)
		return false;
	/* It looks while more comes: to wake it for each bit that it frees would cost more than the records. */
	if (position - end->rung >= half) {
		end->rung = position;
		ring_bell();
	}
	return true;
}

/*
 * Space for a record of at most WIRE_RECORD_MAX bytes on this CPU, with `end` as its ring end. 0 if the ring
 * is full. `interrupts`: interrupts are enabled, and may take slots concurrently.
 */
static __always_inline void *reserve_record(struct wire_ring_ends *end, __u32 bytes, bool interrupts)
{
	__u32 at;
	struct wire_slot *slot;
	__u64 position = end->taken, place;

	if (position >= end->free_until && !find_room(end, position))
		return 0;
	if (interrupts)
		position = __sync_fetch_and_add(&end->taken, 1);
	else
		end->taken = position + 1;
	place = end->place;
	at = (__u32)place + ((__u32)position & ((1U << (place >> 48)) - 1));
	slot = bpf_map_lookup_elem(&records, &at);
	if (!slot)
		return 0; /* never: all places lie inside the ring */
	slot->complete = (__u32)position;
	slot->bytes = bytes;
	return slot->record;
}

/* Publishes the record: its content is visible before its header. */
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
