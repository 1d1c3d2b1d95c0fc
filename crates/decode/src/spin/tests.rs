//! Loops that wait, and loops that look like it, as compilers write them.

use super::*;

const START: u64 = 0x1000;

/// The result for the instruction at `distance`.
fn at(code: &[u8], distance: u64) -> Option<Spin> {
    Segment::new(code, START).spin_at(START + distance)
}

fn how(code: &[u8], distance: u64) -> FrameSpin {
    at(code, distance).map_or(FrameSpin::No, |spin| spin.how)
}

#[test]
fn a_loop_that_asks_one_variable() {
    // `1: mov 0x2ef0(%rip),%eax; test %eax,%eax; je 1b; ret`
    let code = [0x8b, 0x05, 0xf0, 0x2e, 0, 0, 0x85, 0xc0, 0x74, 0xf6, 0xc3];
    let spin = Spin { how: FrameSpin::Rereads, watches: Some(START + 6 + 0x2ef0) };
    for distance in [0, 6, 8] {
        assert_eq!(at(&code, distance), Some(spin), "{distance}");
    }
    assert_eq!(at(&code, 10), None, "ret");
    assert_eq!(at(&code, 99), None, "beyond");
}

#[test]
fn a_loop_with_a_bound_still_waits() {
    // `1: cmp %esi,(%rdi); jne 2f; dec %ecx; jne 1b; 2: ret`
    let code = [0x39, 0x37, 0x75, 0x04, 0xff, 0xc9, 0x75, 0xf8, 0xc3];
    assert_eq!(how(&code, 0), FrameSpin::Rereads);
    assert_eq!(at(&code, 6).unwrap().watches, None);
}

/// Backtracking in a regular expression, one character at a time. The loop ends when the counter equals a
/// value in memory.
#[test]
fn a_loop_with_its_bound_in_memory_is_work() {
    // `1: cmp $0,%edi; jge 3f; jmp 2f; 2: cmp (%rcx),%edi; je 3f; add $-1,%rdi; jmp 1b; 3: ret`
    let code = [
        0x83, 0xff, 0x00, 0x7d, 0x0c, 0xeb, 0x00, 0x3b, 0x39, 0x74, 0x06, 0x48, 0x83, 0xc7, 0xff, 0xeb, 0xef,
        0xc3,
    ];
    for distance in [0, 7, 9, 11] {
        assert_eq!(how(&code, distance), FrameSpin::No, "{distance}");
    }
}

/// The same where each character is asked for, too, whether it may be the end: Java's regular expressions, compiled.
#[test]
fn a_loop_with_its_bound_and_end_check_in_memory_is_work() {
    // `1: cmpl $0,8(%rcx); je 3f; cmp (%rcx),%edi; jle 3f; dec %edi; jmp 1b; 3: ret`
    let code = [0x83, 0x79, 0x08, 0x00, 0x74, 0x08, 0x3b, 0x39, 0x7e, 0x04, 0xff, 0xcf, 0xeb, 0xf2, 0xc3];
    for distance in [0, 4, 6, 8, 10, 12] {
        assert_eq!(how(&code, distance), FrameSpin::No, "{distance}");
    }
}

#[test]
fn pthread_spin_lock() {
    // `lock decl (%rdi); jne 2f; xor %eax,%eax; ret; 2: pause; cmpl $0,(%rdi); jg 0; jmp 2b`
    let code = [
        0xf0, 0xff, 0x0f, 0x75, 0x03, 0x31, 0xc0, 0xc3, 0xf3, 0x90, 0x83, 0x3f, 0x00, 0x7f, 0xf1, 0xeb, 0xf7,
    ];
    for distance in [0, 3, 8, 10, 13, 15] {
        assert_eq!(how(&code, distance), FrameSpin::Pauses, "{distance}");
    }
    assert_eq!(how(&code, 5), FrameSpin::No, "it has the lock");
}

#[test]
fn locks_that_are_tried_without_a_pause() {
    // `mov $1,%ecx; 1: mov %ecx,%eax; xchg %al,(%rdi); test %al,%al; jne 1b`
    let exchange = [0x89, 0xc8, 0x86, 0x07, 0x84, 0xc0, 0x75, 0xf8];
    assert_eq!(how(&exchange, 4), FrameSpin::Rereads);
    // `1: xor %eax,%eax; lock cmpxchg %ecx,(%rdi); jne 1b`
    let compare = [0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xf8];
    assert_eq!(how(&compare, 6), FrameSpin::Rereads);
    // `1: lock btsl $0,(%rdi); jb 1b`
    let bit = [0xf0, 0x0f, 0xba, 0x2f, 0x00, 0x72, 0xf9];
    assert_eq!(how(&bit, 5), FrameSpin::Rereads);
}

#[test]
fn unoptimised_code() {
    // `1: addl $1,-4(%rbp); mov 0x2000(%rip),%eax; test %eax,%eax; je 1b`
    let code = [0x83, 0x45, 0xfc, 0x01, 0x8b, 0x05, 0, 0x20, 0, 0, 0x85, 0xc0, 0x74, 0xf2];
    assert_eq!(how(&code, 4), FrameSpin::Rereads);
}

#[test]
fn a_search_is_work() {
    // `1: cmp (%rdi),%esi; je out; add $4,%rdi; cmp %rdi,%rdx; jne 1b`
    let code = [0x3b, 0x37, 0x74, 0x09, 0x48, 0x83, 0xc7, 0x04, 0x48, 0x39, 0xfa, 0x75, 0xf3];
    assert_eq!(how(&code, 0), FrameSpin::No);
    // A list: `1: cmp %esi,8(%rdi); je out; mov (%rdi),%rdi; test %rdi,%rdi; jne 1b`
    let list = [0x39, 0x77, 0x08, 0x74, 0x08, 0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf3];
    assert_eq!(how(&list, 8), FrameSpin::No);
}

#[test]
fn a_sum_is_work() {
    // `1: add (%rdi,%rcx,4),%eax; inc %rcx; cmp %rcx,%rdx; jne 1b`
    let sum = [0x03, 0x04, 0x8f, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xca, 0x75, 0xf5];
    assert_eq!(how(&sum, 3), FrameSpin::No);
    // Repeated reads of one place whose values are summed: `1: add (%rdi),%eax; dec %ecx; jne 1b`
    let same = [0x03, 0x07, 0xff, 0xc9, 0x75, 0xfa];
    assert_eq!(how(&same, 2), FrameSpin::No);
    // Arithmetic: `1: imul %rsi,%rax; add $1,%rax; dec %ecx; jne 1b`
    let arithmetic = [0x48, 0x0f, 0xaf, 0xc6, 0x48, 0x83, 0xc0, 0x01, 0xff, 0xc9, 0x75, 0xf4];
    assert_eq!(how(&arithmetic, 4), FrameSpin::No);
    // An empty loop: `1: dec %ecx; jne 1b`
    assert_eq!(how(&[0xff, 0xc9, 0x75, 0xfc], 0), FrameSpin::No);
}

#[test]
fn a_retry_that_gets_something_done_is_work() {
    // `1: mov (%rdi),%rax; lea 1(%rax),%rdx; lock cmpxchg %rdx,(%rdi); jne 1b`
    let code = [0x48, 0x8b, 0x07, 0x48, 0x8d, 0x50, 0x01, 0xf0, 0x48, 0x0f, 0xb1, 0x17, 0x75, 0xf2];
    assert_eq!(how(&code, 12), FrameSpin::No);
    // An atomic counter: `1: lock incl (%rdi); dec %ecx; jne 1b`
    assert_eq!(how(&[0xf0, 0xff, 0x07, 0xff, 0xc9, 0x75, 0xf9], 3), FrameSpin::No);
}

#[test]
fn a_reader_of_a_sequence_lock_works() {
    // `1: mov (%rdi),%eax; mov 8(%rdi),%rcx; cmp %eax,(%rdi); jne 1b`
    let code = [0x8b, 0x07, 0x48, 0x8b, 0x4f, 0x08, 0x39, 0x07, 0x75, 0xf6];
    assert_eq!(how(&code, 2), FrameSpin::No);
}

#[test]
fn calls_and_stores_are_work() {
    // `1: call +0; cmp %eax,(%rdi); jne 1b`
    assert_eq!(how(&[0xe8, 0, 0, 0, 0, 0x39, 0x07, 0x75, 0xf7], 5), FrameSpin::No);
    // `1: mov %eax,(%rsi); cmp %eax,(%rdi); jne 1b`
    assert_eq!(how(&[0x89, 0x06, 0x39, 0x07, 0x75, 0xfa], 2), FrameSpin::No);
}

#[test]
fn a_function_that_only_pauses() {
    // `pause; mov $1,%eax; ret`
    let code = [0xf3, 0x90, 0xb8, 1, 0, 0, 0, 0xc3];
    assert_eq!(
        [how(&code, 0), how(&code, 2), how(&code, 7)],
        [FrameSpin::Pauses, FrameSpin::Pauses, FrameSpin::No]
    );
}

#[test]
fn sched_yield() {
    // `mov $24,%eax; syscall; cmp $-4095,%rax; jae error; ret`
    let code = [0xb8, 24, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3];
    assert_eq!([0, 5, 7].map(|distance| how(&code, distance)), [FrameSpin::Yields; 3]);
    assert_eq!(how(&code, 13), FrameSpin::No);
}

#[test]
fn any_bytes_are_looked_at_without_a_panic() {
    let mut state = 1u64;
    let bytes: Vec<u8> = (0..200_000)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect();
    let places: Vec<u64> = (0..bytes.len() as u64 + 10).step_by(3).collect();
    let _ = spins(&bytes, (0..bytes.len() as u64 + 10, u64::MAX - 1000), &places);
    let _ = spins(&bytes, (5..u64::MAX, START), &places);
}
