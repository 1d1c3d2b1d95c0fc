/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Conditions on the arguments of a function that is entered (crates/events/src/condition.rs): alternatives of comparisons that hold
 * together, one behind the other.
 */
#ifndef HOLDUP_CONDITIONS_H
#define HOLDUP_CONDITIONS_H

/* By place number. User space writes the entry before it attaches the probe. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct wire_condition);
} place_conditions SEC(".maps");

static __always_inline bool holds(const struct wire_comparison *one, __u64 seen)
{
	__u32 above = (64 - 8 * (__u32)one->bytes) & 63;
	__u64 value = one->value;
	bool less;

	seen <<= above;
	if (one->is_signed) {
		seen = (__u64)((__s64)seen >> above);
		less = (__s64)seen < (__s64)value;
	} else {
		seen >>= above;
		less = seen < value;
	}
	switch (one->relation) {
	case WIRE_EQUAL:
		return seen == value;
	case WIRE_NOT_EQUAL:
		return seen != value;
	case WIRE_LESS:
		return less;
	case WIRE_LESS_OR_EQUAL:
		return less || seen == value;
	case WIRE_MORE:
		return !less && seen != value;
	case WIRE_MORE_OR_EQUAL:
		return !less;
	case WIRE_ANY_BIT:
		return seen & value;
	case WIRE_NO_BIT:
		return !(seen & value);
	}
	return false;
}

/* Whether the arguments at this place satisfy its condition. */
static __always_inline bool condition_holds(__u32 place, const struct pt_regs *regs)
{
	const struct wire_condition *condition = bpf_map_lookup_elem(&place_conditions, &place);
	__u64 arguments[ARGUMENTS];
	bool all = true;

	if (!condition)
		return false;
	read_arguments(regs, arguments);
	for (int i = 0; i < WIRE_COMPARISONS; i++) {
		const struct wire_comparison *one = &condition->comparisons[i];

		if (i >= condition->count)
			break;
		if (!holds(one, arguments[one->argument & (ARGUMENTS - 1)]))
			all = false;
		if (one->is_last) {
			if (all)
				return true;
			all = true;
		}
	}
	return false;
}

#endif
