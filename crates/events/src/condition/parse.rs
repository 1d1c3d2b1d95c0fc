//! Parses the text of a condition into alternatives. `!` is applied to the comparisons, so the result has no
//! negation.

use super::{ARGUMENTS_MAX, COMPARISONS_MAX, Comparison, Relation, Width};

/// Any of these, of which all.
type Alternatives = Vec<Vec<Comparison>>;

/// Deeper nesting is no person's.
const DEPTH_MAX: usize = 32;
/// Longer ones first: `<` is the beginning of `<=`.
const RELATIONS: [(&str, Relation); 7] = [
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    ("<=", Relation::LessOrEqual),
    (">=", Relation::MoreOrEqual),
    ("<", Relation::Less),
    (">", Relation::More),
    ("&", Relation::AnyBit),
];

struct Parser<'a> {
    /// The unparsed text, without leading white space.
    rest: &'a str,
    depth: usize,
}

/// See the module.
pub(super) fn parse(text: &str) -> Result<Alternatives, String> {
    let mut parser = Parser { rest: text.trim(), depth: 0 };
    let alternatives = parser.any(false)?;
    match parser.rest {
        "" => Ok(alternatives),
        rest => Err(format!("'{rest}' is too much: between two comparisons stands && or ||")),
    }
}

impl Parser<'_> {
    /// Parses `all || all || …`. With `negated`, returns the negation.
    fn any(&mut self, negated: bool) -> Result<Alternatives, String> {
        let mut made = self.all(negated)?;
        while self.take("||") {
            let more = self.all(negated)?;
            made = if negated { both(&made, &more)? } else { either(made, more)? };
        }
        Ok(made)
    }

    /// `one && one && …`
    fn all(&mut self, negated: bool) -> Result<Alternatives, String> {
        let mut made = self.one(negated)?;
        while self.take("&&") {
            let more = self.one(negated)?;
            made = if negated { either(made, more)? } else { both(&made, &more)? };
        }
        Ok(made)
    }

    /// `!one`, `(any)` or a comparison.
    fn one(&mut self, negated: bool) -> Result<Alternatives, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} parentheses are open"));
        }
        let made = if self.take("!") {
            self.one(!negated)
        } else if self.take("(") {
            let made = self.any(negated)?;
            if !self.take(")") {
                return Err("a parenthesis is not closed".to_owned());
            }
            Ok(made)
        } else {
            self.comparison(negated).map(|comparison| vec![vec![comparison]])
        };
        self.depth -= 1;
        made
    }

    fn comparison(&mut self, negated: bool) -> Result<Comparison, String> {
        let (argument, width) = self.argument()?;
        let relation = RELATIONS.iter().find(|(text, _)| !self.rest.starts_with("&&") && self.take(text));
        let Some(&(_, relation)) = relation else {
            return Err(format!(
                "behind arg{argument} stands ==, !=, <, <=, >, >= or &, and a number: arg{argument} > 4096"
            ));
        };
        let relation = if negated { relation.opposite() } else { relation };
        Ok(Comparison { argument, width, relation, value: self.number(width)? })
    }

    fn argument(&mut self) -> Result<(u8, Width), String> {
        let word = self.word();
        let wrong = || {
            let last = ARGUMENTS_MAX - 1;
            format!(
                "'{word}' is no argument: those in registers are arg0 to arg{last}, by the order in which C passes them"
            )
        };
        let (name, width) = match word.split_once(':') {
            Some((name, width)) => (name, parse_width(width)?),
            None => (word, Width { bytes: 8, is_signed: true }),
        };
        let number = name.strip_prefix("arg").and_then(|number| number.parse().ok());
        let number: u8 = number.filter(|number| *number < ARGUMENTS_MAX).ok_or_else(wrong)?;
        Ok((number, width))
    }

    fn number(&mut self, width: Width) -> Result<u64, String> {
        let word = self.word();
        let (sign, digits) = match word.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, word),
        };
        let read = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        // Both parsers would take a sign of their own.
        let read = read.ok().filter(|_| !digits.contains(['+', '-'])).map(|value| sign * i128::from(value));
        let value = read.ok_or_else(|| format!("'{word}' is not a number: write 4096, -1 or 0x1000"))?;
        let bits = u32::from(width.bytes) * 8;
        let (least, most) = match width.is_signed {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        if !(least..=most).contains(&value) {
            let sign = if width.is_signed { 's' } else { 'u' };
            return Err(format!("no {sign}{bits} is {word}: of another type is arg0:u64, arg0:s32, …"));
        }
        Ok(value as u64)
    }

    /// Takes this text, if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn word(&mut self) -> &str {
        let is_part = |byte: char| byte.is_ascii_alphanumeric() || "_:-+".contains(byte);
        let end = self.rest.find(|byte| !is_part(byte)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }
}

fn parse_width(text: &str) -> Result<Width, String> {
    let is_signed = text.starts_with('s');
    let bytes = match text.strip_prefix(['s', 'u']) {
        Some("8") => 1,
        Some("16") => 2,
        Some("32") => 4,
        Some("64") => 8,
        _ => return Err(format!("'{text}' is not a type: there are s8 to s64 and u8 to u64")),
    };
    Ok(Width { bytes, is_signed })
}

/// Where one of both holds.
fn either(mut one: Alternatives, other: Alternatives) -> Result<Alternatives, String> {
    one.extend(other);
    bounded(one)
}

/// Where both hold.
fn both(one: &Alternatives, other: &Alternatives) -> Result<Alternatives, String> {
    let pair = |a: &Vec<Comparison>, b: &Vec<Comparison>| a.iter().chain(b).copied().collect();
    bounded(one.iter().flat_map(|a| other.iter().map(move |b| pair(a, b))).collect())
}

/// Checked after each step, so that repeated distribution of `&&` over `||` cannot grow without bound.
fn bounded(alternatives: Alternatives) -> Result<Alternatives, String> {
    let count: usize = alternatives.iter().map(Vec::len).sum();
    if count > COMPARISONS_MAX {
        return Err(format!(
            "it is {count} comparisons, written as alternatives; {COMPARISONS_MAX} are looked at in the kernel"
        ));
    }
    Ok(alternatives)
}
