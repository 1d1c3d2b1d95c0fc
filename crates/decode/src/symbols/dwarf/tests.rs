//! Debug information of this very test program.

use super::*;

/// Returns the line of its own statement.
#[inline(always)]
fn inlined(value: &mut u64) -> u32 {
    *value = std::hint::black_box(value.wrapping_mul(3)); // the line of `inlined`
    line!() - 1
}

#[inline(never)]
fn outer(value: &mut u64) -> (u32, u32) {
    let called = line!() + 1;
    let inside = inlined(value);
    (inside, std::hint::black_box(called))
}

fn own_elf() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

/// Addresses of the whole function whose demangled name ends so.
fn addresses_of(elf: &Elf<'_>, name: &str) -> Vec<u64> {
    let start = elf.address_of_function_ending(name).unwrap();
    let all: Vec<u64> = (start..start + 400).collect();
    let places = elf.functions(&all);
    let is_it =
        |address: &u64| places.get(address).is_some_and(|place| place.calls[0].function.ends_with(name));
    all.into_iter().filter(is_it).collect()
}

#[test]
fn an_inlined_call_is_above_its_caller_each_with_its_line() {
    let (inside, called) = outer(&mut 7);
    let bytes = own_elf();
    let elf = Elf::parse(&bytes).unwrap();
    let addresses = addresses_of(&elf, "dwarf::tests::outer");
    let found = look_up(&Sections::load(&elf).unwrap(), None, &addresses, 1);
    assert!(!found.gave_up && !found.is_split);
    assert_eq!(found.places.len(), addresses.len(), "every byte of the function is known");
    let chains: Vec<Vec<(&str, u32)>> = found
        .places
        .values()
        .map(|place| {
            let name = |call: &'_ Call| call.function.rsplit("::").next().unwrap_or("").to_owned();
            assert_eq!(place.calls.last().map(name).as_deref(), Some("outer"));
            assert!(place.calls.last().is_some_and(|call| call.file.ends_with("dwarf/tests.rs")));
            place.calls.iter().map(|call| (call.function.as_str(), call.line)).collect()
        })
        .collect();
    let is_wanted = |chain: &Vec<(&str, u32)>| {
        let [.., (leaf, leaf_line), (_, caller_line)] = chain.as_slice() else { return false };
        leaf.ends_with("inlined") && *leaf_line == inside && *caller_line == called
    };
    assert!(chains.iter().any(is_wanted), "lines {inside} in {called}: {chains:?}");
}

#[test]
fn shared_by_threads_the_answer_is_the_same() {
    let bytes = own_elf();
    let elf = Elf::parse(&bytes).unwrap();
    let sections = Sections::load(&elf).unwrap();
    let start = elf.address_of_function_ending("dwarf::tests::outer").unwrap();
    let addresses: Vec<u64> = (0..2000).map(|step| start + step * 16).collect();
    let alone = look_up(&sections, None, &addresses, 1);
    let shared = look_up(&sections, None, &addresses, 3);
    assert_eq!(alone.places, shared.places);
    assert!(alone.places.len() > 1000);
}

#[test]
fn what_the_linker_threw_away_is_nowhere() {
    assert_eq!(within(&[1, 5, 9], 0, 100), &[] as &[u64]);
    assert_eq!(within(&[1, 5, 9], 2, 9), &[5]);
    assert_eq!(within(&[1, 5, 9], 9, 2), &[] as &[u64]);
}
