//! The running kernel's type information (BTF) of its tracepoints.

use std::ffi::CString;

use libbpf_sys::{BTF_KIND_FUNC, BTF_KIND_TYPEDEF, btf, btf_type};

/// The kernel's types, freed on drop. Null if it has none.
pub struct KernelTypes(*mut btf);

/// The arguments of the tracepoint `io_uring_complete`, beyond the ring and the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingCompletion {
    /// The completion.
    Whole,
    /// Separate fields.
    Fields,
}

impl KernelTypes {
    /// Loads the types of the running kernel.
    pub fn load() -> KernelTypes {
        // SAFETY: gives an owned object or null.
        KernelTypes(unsafe { libbpf_sys::btf__load_vmlinux_btf() })
    }

    /// Whether the kernel has the tracepoint of a `tp_btf/NAME` section. True for other sections.
    pub fn has_tracepoint(&self, section: &str) -> bool {
        section.strip_prefix("tp_btf/").is_none_or(|name| self.tracepoint(name).is_some())
    }

    /// Whether it has this function.
    pub fn has_function(&self, name: &str) -> bool {
        let Ok(name) = CString::new(name) else { return false };
        // SAFETY: as in `tracepoint`.
        !self.0.is_null()
            && unsafe { libbpf_sys::btf__find_by_name_kind(self.0, name.as_ptr(), BTF_KIND_FUNC) } > 0
    }

    /// Whether `sched_switch` hands over the state of the thread that leaves: from 5.18 on it is the
    /// fourth argument.
    pub fn switch_hands_over_state(&self) -> bool {
        self.arguments("sched_switch").is_some_and(|count| count >= 4)
    }

    /// Returns the arguments of `io_uring_complete`. `None` before Linux 5.19, where the request is no
    /// argument.
    pub fn ring_completion(&self) -> Option<RingCompletion> {
        match self.arguments("io_uring_complete")? {
            3 => Some(RingCompletion::Whole),
            5.. => Some(RingCompletion::Fields),
            _ => None,
        }
    }

    /// The typedef that the kernel has for the function behind a tracepoint.
    fn tracepoint(&self, name: &str) -> Option<*const btf_type> {
        if self.0.is_null() {
            return None;
        }
        let name = CString::new(format!("btf_trace_{name}")).ok()?;
        // SAFETY: the object lives, and the name outlives the call.
        let id = unsafe { libbpf_sys::btf__find_by_name_kind(self.0, name.as_ptr(), BTF_KIND_TYPEDEF) };
        self.by_id(u32::try_from(id).ok()?)
    }

    fn by_id(&self, id: u32) -> Option<*const btf_type> {
        // SAFETY: the object lives, and an unknown id gives null.
        let found = unsafe { libbpf_sys::btf__type_by_id(self.0, id) };
        (!found.is_null()).then_some(found)
    }

    /// How many arguments a tracepoint hands over.
    pub fn arguments(&self, tracepoint: &str) -> Option<u32> {
        // SAFETY: types live as long as the object. Typedefs and pointers have the id of their target.
        let behind = |found: *const btf_type| self.by_id(unsafe { (*found).__bindgen_anon_1.type_ });
        let function = behind(behind(self.tracepoint(tracepoint)?)?)?;
        // The low 16 bits of `info` count a function's parameters. The first parameter is the kernel's own.
        let parameters = unsafe { (*function).info } & 0xffff;
        parameters.checked_sub(1)
    }
}

impl Drop for KernelTypes {
    fn drop(&mut self) {
        // SAFETY: owned and freed once. Null is allowed.
        unsafe { libbpf_sys::btf__free(self.0) };
    }
}
