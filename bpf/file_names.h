/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What files are called: those that calls are counted of, and those that threads wait for. */
#ifndef HOLDUP_FILE_NAMES_H
#define HOLDUP_FILE_NAMES_H

/* Room for a name in the making. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_object_name);
} name_rooms SEC(".maps");

/* Maximum number of files that threads waited for (a lock, the disk). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct wire_object_key);
	__type(value, struct wire_object_name);
} waited_files SEC(".maps");

/* Not 0: there is no room for more of them, so that none is spelled out in vain at each wait. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} waited_files_full SEC(".maps");

#define E2BIG 7

static __always_inline struct file *open_file(struct task_struct *task, __u32 fd)
{
	struct file **fds = BPF_CORE_READ(task, files, fdt, fd), *file = 0;

	if (fd < BPF_CORE_READ(task, files, fdt, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	return file;
}

static __always_inline void name_path(struct file *file, struct wire_object_name *name)
{
	struct dentry *entry = BPF_CORE_READ(file, f_path.dentry), *parent;

	for (__u32 part = 0; part < WIRE_PATH_PARTS; part++) {
		parent = BPF_CORE_READ(entry, d_parent);
		bpf_probe_read_kernel_str(name->path[part], WIRE_PATH_PART_BYTES, BPF_CORE_READ(entry, d_name.name));
		if (!parent || parent == entry)
			return;
		entry = parent;
	}
}

/* Notes once what the file is called that this thread waits for. */
__noinline int name_waited_file(struct wire_wait *wait)
{
	struct wire_object_key object = {};
	struct wire_object_name *name;
	struct file *file;
	__u32 zero = 0, *full;

	full = bpf_map_lookup_elem(&waited_files_full, &zero);
	if (!wait || !full || *full)
		return 0;
	object.kind = wait->object_kind;
	object.object = wait->object;
	name = bpf_map_lookup_elem(&name_rooms, &zero);
	if (!name || bpf_map_lookup_elem(&waited_files, &object))
		return 0;
	/* Its own table, from which the wait's file was just read. */
	file = open_file(bpf_get_current_task_btf(), wait->op);
	if (!file)
		return 0;
	__builtin_memset(name, 0, sizeof(*name));
	name_path(file, name);
	if (bpf_map_update_elem(&waited_files, &object, name, BPF_NOEXIST) == -E2BIG)
		*full = 1;
	return 0;
}

#endif
