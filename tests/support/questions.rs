//! Worked questions of a page, with their answers.

/// A question of the page: its text, the form for other engines, and the place of its answer.
pub struct Question {
    pub sql: String,
    /// The same without functions that only holdup has.
    pub elsewhere: String,
    pub answer: std::ops::Range<usize>,
}

/// Returns the queries of a page after a heading.
pub fn questions(page: &str, heading: &str) -> Vec<Question> {
    let mut found = Vec::new();
    let mut at = page.find(heading).expect("questions");
    while let Some(from) = page[at..].find("```sql\n").map(|place| at + place + 7) {
        let to = from + page[from..].find("```").expect("its end");
        let answer = to + page[to..].find("```text\n").expect("an answer") + 8;
        let end = answer + page[answer..].find("```").expect("its end");
        let sql = page[from..to].trim().to_owned();
        let other =
            page[to..answer].split_once("```sql elsewhere\n").and_then(|(_, rest)| rest.split_once("```"));
        let elsewhere = other.map_or(sql.clone(), |(other, _)| other.trim().to_owned());
        found.push(Question { sql, elsewhere, answer: answer..end });
        at = end + 3;
    }
    found
}
