//! Programs of two threads that share cache lines: `sharing NAME SECONDS`. `--cfg padded`: only read-only
//! data is shared. The last line is the number of steps. Standard error has the address of the shared memory.
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const BATCH: u64 = 4096;
const THREADS: usize = 2;

#[cfg_attr(padded, repr(align(256)))]
#[derive(Default)]
struct Hits {
    hits: AtomicU64,
}

#[cfg_attr(padded, repr(align(256)))]
#[derive(Default)]
struct Stats {
    sum: u64,
    most: u64,
}

#[repr(align(256))]
struct Aligned<T>(T);

static HITS: Aligned<[Hits; THREADS]> =
    Aligned([Hits { hits: AtomicU64::new(0) }, Hits { hits: AtomicU64::new(0) }]);
static TABLE: [u64; 256] = [7919; 256];
static OVER: Aligned<AtomicBool> = Aligned(AtomicBool::new(false));

fn until_over(mut step: impl FnMut()) -> u64 {
    let mut made = 0;
    while !OVER.0.load(Relaxed) {
        step();
        made += BATCH;
    }
    made
}

fn print_range<T>(memory: &T) {
    let address = std::ptr::from_ref(memory) as usize;
    eprintln!("memory: {address:#x} {:#x}", address + size_of::<T>());
}

#[inline(never)]
fn hit(me: usize) {
    for _ in 0..BATCH {
        HITS.0[me].hits.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
fn count_alive(object: &Arc<u64>) {
    for _ in 0..BATCH {
        drop(std::hint::black_box(Arc::clone(object)));
    }
}

#[inline(never)]
fn gather(stats: &mut Stats) {
    let stats = std::hint::black_box(stats);
    for number in 0..BATCH {
        unsafe {
            let sum = std::ptr::read_volatile(&stats.sum);
            std::ptr::write_volatile(&mut stats.sum, sum + number);
            std::ptr::write_volatile(&mut stats.most, number);
        }
    }
}

#[inline(never)]
fn look_up() {
    let mut at = 0u64;
    for number in 0..BATCH {
        at = unsafe { std::ptr::read_volatile(&TABLE[(at % 256) as usize]) } + number;
    }
}

struct Shared(UnsafeCell<[Stats; THREADS]>);
unsafe impl Sync for Shared {}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let name = words[1].as_str();
    let seconds: f64 = words[2].parse().expect("seconds");
    let stats = Box::new(Aligned(Shared(UnsafeCell::default())));
    // An object that threads share, or one of each.
    let first = Arc::new(0u64);
    let padding = vec![0u8; 512];
    let second = if cfg!(padded) { Arc::new(1) } else { Arc::clone(&first) };
    let objects = [first, second];
    match name {
        "static-atomics" => print_range(&HITS),
        "reference-count" => {
            let counts = std::ptr::from_ref(&*objects[0]) as usize - 16;
            eprintln!("memory: {counts:#x} {:#x}", counts + 16);
        }
        "boxed-array" => print_range(&*stats),
        _ => print_range(&TABLE),
    }
    let made = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|me| {
                let (objects, stats) = (&objects, &stats.0);
                scope.spawn(move || match name {
                    "static-atomics" => until_over(|| hit(me)),
                    "reference-count" => until_over(|| count_alive(&objects[me])),
                    "boxed-array" => {
                        until_over(|| gather(unsafe { &mut *stats.0.get().cast::<Stats>().add(me) }))
                    }
                    _ => until_over(look_up),
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        OVER.0.store(true, Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a worker")).sum::<u64>()
    });
    drop(padding);
    println!("progress: {made} steps");
}
