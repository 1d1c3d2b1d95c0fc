//! `NAME(CONDITION)`: how the triggers write that a place counts only with certain arguments.

/// Returns name and condition. The condition is empty if there is none. Its parentheses are the last pair.
///
/// # Errors
/// If the condition is malformed, with its syntax.
pub(super) fn split(text: &str) -> Result<(&str, &str), String> {
    if !text.contains(['(', ')']) {
        return Ok((text, ""));
    }
    let wrong = "a condition stands in parentheses: hit:syscall:write(count > 4096)";
    let inner = text.strip_suffix(')').ok_or(wrong)?;
    let mut open = 1;
    let opens = |(_, byte): &(usize, char)| {
        open += i32::from(*byte == ')') - i32::from(*byte == '(');
        open == 0
    };
    let (at, _) = inner.char_indices().rev().find(opens).ok_or(wrong)?;
    let (name, condition) = (&inner[..at], inner[at + 1..].trim());
    match name.is_empty() || condition.is_empty() {
        true => Err(wrong.to_owned()),
        false => Ok((name, condition)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_parentheses_are_the_condition() {
        assert_eq!(split("syscall:write"), Ok(("syscall:write", "")));
        assert_eq!(split("syscall:write(count > 4096)"), Ok(("syscall:write", "count > 4096")));
        assert_eq!(split("f((arg0 > 1) && (arg1 > 1))"), Ok(("f", "(arg0 > 1) && (arg1 > 1)")));
        assert_eq!(split("a::operator()( arg0 > 1 )"), Ok(("a::operator()", "arg0 > 1")));
        for wrong in ["write(count > 1", "write()", "write(count)1", "(count)", "write)count)", ")("] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
