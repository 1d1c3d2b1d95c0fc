//! Compares the parsed alternatives with a direct evaluation of the condition.

use super::*;

/// As the kernel program reads it.
fn holds(condition: &Condition, arguments: [u64; 6]) -> bool {
    let one = |comparison: &Comparison| {
        let Comparison { argument, width, relation, value } = *comparison;
        let shift = 64 - 8 * u32::from(width.bytes);
        let shifted = arguments[usize::from(argument)] << shift;
        let (seen, value) = match width.is_signed {
            true => (i128::from(shifted as i64 >> shift), i128::from(value as i64)),
            false => (i128::from(shifted >> shift), i128::from(value)),
        };
        match relation {
            Relation::Equal => seen == value,
            Relation::NotEqual => seen != value,
            Relation::Less => seen < value,
            Relation::LessOrEqual => seen <= value,
            Relation::More => seen > value,
            Relation::MoreOrEqual => seen >= value,
            Relation::AnyBit => seen & value != 0,
            Relation::NoBit => seen & value == 0,
        }
    };
    condition.alternatives().iter().any(|all| all.iter().all(one))
}

fn holds_for(text: &str, first: u64, second: u64) -> bool {
    holds(&Condition::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")), [first, second, 0, 0, 0, 0])
}

#[test]
fn comparisons_are_evaluated() {
    assert!(holds_for("arg0 > 4096", 4097, 0) && !holds_for("arg0>4096", 4096, 0));
    assert!(holds_for("arg1 == 0x10", 0, 16) && holds_for("arg0 & 6", 2, 0) && !holds_for("arg0 & 6", 8, 0));
    assert!(holds_for("arg0 < 0", u64::MAX, 0), "eight bytes with a sign, if nothing is said");
    assert!(!holds_for("arg0:u64 < 1", u64::MAX, 0));
    // C leaves rubbish above an int.
    assert!(holds_for("arg0:s32 == -2", 0xdead_beef_ffff_fffe, 0) && holds_for("arg0:u8 == 0xff", 0x1ff, 0));
    assert!(!holds_for("arg0 == -2", 0xdead_beef_ffff_fffe, 0));
}

#[test]
fn and_binds_before_or_and_not_reaches_inside() {
    let cases = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (7, 7)];
    for (a, b) in cases {
        assert_eq!(holds_for("arg0 == 1 || arg0 == 0 && arg1 == 1", a, b), a == 1 || (a == 0 && b == 1));
        assert_eq!(holds_for("(arg0 == 1 || arg0 == 0) && arg1 == 1", a, b), (a == 1 || a == 0) && b == 1);
        assert_eq!(holds_for("!(arg0 == 1 || arg1 & 1)", a, b), !(a == 1 || b & 1 != 0));
        assert_eq!(holds_for("!(!(arg0 <= 1) && arg1 != 7)", a, b), a <= 1 || b == 7);
    }
}

#[test]
fn syntax_errors_are_explained() {
    let error = |text| Condition::parse(text).err().unwrap_or_default();
    for (text, why) in [
        ("count > 1", "'count' is no argument: those in registers are arg0 to arg5"),
        ("arg6 > 1", "'arg6' is no argument"),
        ("", "'' is no argument"),
        ("arg0", "behind arg0 stands =="),
        ("arg0 && arg1", "behind arg0 stands =="),
        ("arg0 > many", "'many' is not a number"),
        ("arg0 > --1", "'--1' is not a number"),
        ("arg0:s32 == 0xffffffff", "no s32 is 0xffffffff"),
        ("arg0:u32 > -1", "no u32 is -1"),
        ("arg0:int > 1", "'int' is not a type"),
        ("(arg0 > 1", "not closed"),
        ("arg0 > 1 arg1 > 1", "&& or ||"),
        ("arg0 > 1)", "')' is too much"),
    ] {
        assert!(error(text).contains(why), "{text}: {}", error(text));
    }
    let deep = "(".repeat(1000) + "arg0 > 1";
    assert!(error(&deep).contains("parentheses"), "{}", error(&deep));
    let long = vec!["(arg0 == 1 || arg1 == 2)"; 40].join(" && ");
    assert!(error(&long).contains("8 are looked at"), "{}", error(&long));
}
