/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Peers of sockets: those with counted calls, and those that threads wait for. */
#ifndef HOLDUP_SOCKET_NAMES_H
#define HOLDUP_SOCKET_NAMES_H

#define SYS_CONNECT 42
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
/* `sun_family` in front of a name, and the longest name (unix(7)). */
#define UNIX_FAMILY_BYTES 2
#define UNIX_NAME_BYTES 108

/*
 * Sockets that threads waited for. Connections may open and close by the thousand, so the least recently used
 * entries are dropped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_object_key);
	__type(value, struct wire_object_name);
} waited_sockets SEC(".maps");

static __always_inline void name_unix_address(struct unix_address *address, struct wire_object_name *name)
{
	__u32 bytes = BPF_CORE_READ(address, len) - UNIX_FAMILY_BYTES;

	if (bytes > UNIX_NAME_BYTES)
		return;
	bpf_probe_read_kernel(name->path, bytes & 127, (void *)__builtin_preserve_access_index(&address->name) + UNIX_FAMILY_BYTES);
}

/*
 * An accepted end has its listener's address. A connecting end mostly has none, and the ends of socketpair(2)
 * have none.
 */
static __always_inline void name_unix_socket(struct unix_sock *sock, struct wire_object_name *name)
{
	struct unix_sock *peer = (struct unix_sock *)BPF_CORE_READ(sock, peer);
	struct unix_address *own = BPF_CORE_READ(sock, addr), *other = 0;

	if (peer) {
		other = BPF_CORE_READ(peer, addr);
		name->peer_object = BPF_CORE_READ((struct sock *)peer, sk_socket, file, f_inode, i_ino);
		if (own && !other)
			name->side = WIRE_SIDE_ACCEPTED;
		else if (other && !own)
			name->side = WIRE_SIDE_CONNECTED;
	}
	if (own || other)
		name_unix_address(own ? own : other, name);
}

static __always_inline void name_socket(struct file *file, struct wire_object_name *name)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	__u16 port;

	name->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (name->family == AF_UNIX) {
		name_unix_socket((struct unix_sock *)sock, name);
		return;
	}
	if (name->family != AF_INET && name->family != AF_INET6)
		return;
	name->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	port = BPF_CORE_READ(sock, __sk_common.skc_dport);
	name->peer_port = port << 8 | port >> 8;
	if (name->family == AF_INET) {
		__be32 local = BPF_CORE_READ(sock, __sk_common.skc_rcv_saddr);
		__be32 peer = BPF_CORE_READ(sock, __sk_common.skc_daddr);

		__builtin_memcpy(name->local, &local, 4);
		__builtin_memcpy(name->peer, &peer, 4);
		return;
	}
	BPF_CORE_READ_INTO(&name->local, sock, __sk_common.skc_v6_rcv_saddr);
	BPF_CORE_READ_INTO(&name->peer, sock, __sk_common.skc_v6_daddr);
}

/* Stores the peers of the socket that this thread waits for, once per socket. */
__noinline int name_waited_socket(struct wire_wait *wait)
{
	struct wire_object_key object = {};
	struct wire_object_name *name;
	struct file *file;
	__u32 zero = 0;

	if (!wait)
		return 0;
	object.kind = wait->object_kind;
	object.object = wait->object;
	if (bpf_map_lookup_elem(&waited_sockets, &object))
		return 0;
	name = bpf_map_lookup_elem(&name_rooms, &zero);
	/* Its own table, from which the wait's socket was just read. */
	file = open_file(bpf_get_current_task_btf(), wait->op);
	if (!name || !file)
		return 0;
	__builtin_memset(name, 0, sizeof(*name));
	name_socket(file, name);
	if (name->family == AF_UNIX && wait->syscall == SYS_CONNECT)
		return 0; /* It has no other end yet. */
	bpf_map_update_elem(&waited_sockets, &object, name, BPF_NOEXIST);
	return 0;
}

#endif
