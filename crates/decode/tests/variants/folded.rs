//! Folded stacks: counts with fractions, lines of something else, and the order of events.

use super::*;

#[test]
fn stacks_that_come_late_in_the_recording_are_not_lost() {
    let import = Imported::from_fixture("long.folded");
    let expected = ["a", "b", "c"].map(|name| (name.to_owned(), 1_500_000_000));
    assert_eq!(import.time_by_leaf(), BTreeMap::from(expected));
    assert_eq!(import.losses(), BTreeMap::new());
}

#[test]
fn counts_may_have_fractions() {
    let import = Imported::from_fixture("fractions.folded");
    let expected = [("cold", 2_000_000), ("hot", 10_500_000)].map(|(name, ns)| (name.to_owned(), ns));
    assert_eq!((import.reader, import.time_by_leaf()), ("folded", BTreeMap::from(expected)));
    for (text, hot_ns) in [
        ("m;hot 0.25\nm;cold 1\n", 250_000),
        ("m;hot 1,5\nm;cold 3\n", 1_500_000),
        ("m;hot 1e2\nm;cold 3", 100_000_000),
    ] {
        let import = Imported::read(text.as_bytes()).unwrap();
        assert_eq!(import.time_by_leaf()["hot"], hot_ns, "{text}");
    }
}

#[test]
fn lines_of_something_else_are_counted() {
    let import = Imported::from_fixture("bad-line.folded");
    assert_eq!((import.reader, import.losses()["unreadable"]), ("folded", 1));
    assert_eq!(import.time_by_leaf()["f20"], 20_000_000);
    assert_eq!(import.facts.sources[0].lost, 1);
    let prose = "This line has 3 words\nthat is not\na stack at all\n";
    assert!(Imported::read(prose.as_bytes()).is_err());
}

#[test]
fn names_need_not_be_utf8() {
    let import = Imported::read(b"main;\xff\xfe 3\nmain;hot 1\n").unwrap();
    assert_eq!((import.reader, import.time_by_leaf()["\u{fffd}\u{fffd}"]), ("folded", 3_000_000));
    assert_eq!(import.losses(), BTreeMap::new());
}
