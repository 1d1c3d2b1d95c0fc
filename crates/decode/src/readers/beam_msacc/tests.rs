//! The same account as terms and as JSON.

use super::*;

const TERMS: &str = "[#{counters =>\n #{aux => 0,check_io => 3,emulator => 50,gc => 20,sleep => 27},\n id => 2,type => scheduler}].\n";
const JSON: &str =
    r#"[{"counters":{"aux":0,"check_io":3,"emulator":50,"gc":20,"sleep":27},"id":2,"type":"scheduler"}]"#;

#[test]
fn terms_and_json_are_the_same() {
    let (terms, json) = (accounts(TERMS), accounts(JSON));
    assert_eq!(terms, json);
    let [account] = &terms.0[..] else { panic!("{terms:?}") };
    assert_eq!(
        (account.kind.as_str(), account.id, account.sum_ns(), account.sleep_ns()),
        ("scheduler", 2, 100, 27)
    );
    assert!(Format.recognises(TERMS.as_bytes()) && Format.recognises(JSON.as_bytes()));
    assert_eq!(accounts("#{counters => #{gc => 1}").1, 1);
}

#[test]
fn states_lie_one_behind_the_other() {
    let mut lines = Vec::new();
    let told = Format.read(TERMS.as_bytes(), &Wanted::default(), &mut |event| match event {
        Event::Runtime(RuntimeEvent { at, what: RuntimeEventKind::Begin(kind), name, .. }) => {
            lines.push(format!("{} {} {name}", at.0, kind.name()));
        }
        Event::Snapshot(look) => lines.push(format!("{} ran {}", look.at.0, look.exec_ns.unwrap())),
        _ => {}
    });
    assert_eq!(told.unwrap().span.1, Timestamp(100));
    let expected =
        ["0 ran 0", "0 user check_io", "3 user emulator", "53 gc-concurrent gc", "73 ran 73", "100 ran 73"];
    assert_eq!(lines, expected);
    let none = "[#{counters => #{check_io => 0,emulator => 0},id => 1,type => scheduler}]";
    assert!(Format.read(none.as_bytes(), &Wanted::default(), &mut |_| {}).is_err());
}
