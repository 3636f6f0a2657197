//! Finding the answer in a solution.

/// Phrases after which the answer stands, as models write them.
const PHRASES: [&str; 6] = ["final answer is", "answer is", "final answer:", "answer:", "**answer**:", "answer ="];

/// The answer that a text gives: the last `\boxed{}`, or those it is spread over, else what follows the last "answer is", else
/// the last formula, else the whole text if it is one line, else its last line.
pub fn extract(text: &str) -> Option<String> {
    let found = boxed(text).or_else(|| stated(text)).or_else(|| formula(text)).or_else(|| last_line(text))?;
    let found = tidy(&found);
    (!found.is_empty()).then_some(found)
}

/// The content of the last box, or of the last boxes if one answer is spread over them: `\boxed{1} and \boxed{2}`.
fn boxed(text: &str) -> Option<String> {
    let (mut start, content, _) = last_box(text)?;
    let mut answer = content.to_string();
    while let Some((before, content, rest)) = last_box(&text[..start])
        && joins(rest)
    {
        start = before;
        answer = format!("{content}, {answer}");
    }
    Some(answer)
}

/// Start of the last `\boxed{...}`, `\boxed x` or `\fbox{...}`, its content, and the text after it.
fn last_box(text: &str) -> Option<(usize, &str, &str)> {
    let (start, command) =
        ["\\boxed", "\\fbox"].iter().filter_map(|command| Some((text.rfind(command)?, *command))).max()?;
    let rest = text[start + command.len()..].trim_start();
    let (content, rest) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_at(balanced(rest)),
        None => rest.split_at(rest.find(['$', ' ', '\n']).unwrap_or(rest.len())),
    };
    Some((start, content, rest))
}

/// True if nothing but a comma, "and" or "or", perhaps with a name as in `, x =`, stands between two boxes.
fn joins(text: &str) -> bool {
    let words = || text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 1);
    let spaces = |word: &str| matches!(word, "quad" | "qquad" | "text" | "and" | "or");
    words().all(spaces) && (text.contains(',') || words().any(|word| matches!(word, "and" | "or")))
}

/// Every `\boxed{...}` in the text, in order.
pub(crate) fn all_boxed(text: &str) -> Vec<String> {
    let contents = |(start, command): (usize, &str)| {
        let rest = text[start + command.len()..].trim_start().strip_prefix('{')?;
        rest.get(..balanced(rest)).map(str::to_string)
    };
    text.match_indices("\\boxed").filter_map(contents).collect()
}

/// Length of `text` before its closing brace.
fn balanced(text: &str) -> usize {
    let mut depth = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '{' if !escaped => depth += 1,
            '}' if !escaped && depth == 0 => return at,
            '}' if !escaped => depth -= 1,
            _ => {}
        }
        escaped = false;
    }
    text.len()
}

fn stated(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let end = PHRASES.iter().filter_map(|phrase| lower.rfind(phrase).map(|at| at + phrase.len())).max()?;
    let rest = text[end..].trim_start_matches([':', ' ', '\n', '*']);
    let line = rest.lines().next()?;
    let sentence = line.split(". ").next()?;
    // `Final Answer: The largest $n$ is 34.`
    let told = sentence.strip_prefix("The ").and_then(|rest| rest.rsplit_once(" is "));
    let sentence = told.map_or(sentence, |(_, value)| value);
    first_formula(sentence).or_else(|| (!sentence.trim().is_empty()).then(|| sentence.to_string()))
}

/// The first formula, if nothing but words without digits surrounds it.
fn first_formula(text: &str) -> Option<String> {
    let start = text.find('$')?;
    let rest = &text[start + 1..];
    let end = rest.find('$')?;
    let outside = format!("{}{}", &text[..start], &rest[end + 1..]);
    (!outside.contains(|c: char| c.is_ascii_digit() || c == '$')).then(|| rest[..end].to_string())
}

/// The last formula in dollars, of a text that is more than one formula.
fn formula(text: &str) -> Option<String> {
    let text = text.replace("$$", "$").replace("\\(", "$").replace("\\)", "$").replace("\\[", "$").replace("\\]", "$");
    let text = text.replace("\\$", "\u{2}");
    let parts: Vec<&str> = text.split('$').collect();
    if parts.len() < 3 {
        return None;
    }
    let last = if parts.len() % 2 == 1 { parts.len() - 2 } else { parts.len() - 3 };
    Some(parts[last].replace('\u{2}', "\\$"))
}

fn last_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_string)
}

fn tidy(answer: &str) -> String {
    let mut answer = answer.trim();
    loop {
        let shorter = answer.trim_end_matches(['.', ',', ';', ':', '*']).trim_end_matches("\\\\");
        let shorter = shorter.trim_start_matches("**").trim();
        let shorter = shorter.trim_start_matches(':').trim();
        let shorter = unwrapped(shorter, "$$", "$$").unwrap_or(shorter);
        let shorter = unwrapped(shorter, "$", "$").unwrap_or(shorter);
        let shorter = unwrapped(shorter, "\\(", "\\)").unwrap_or(shorter);
        let shorter = unwrapped(shorter, "\\[", "\\]").unwrap_or(shorter);
        if shorter == answer {
            return answer.to_string();
        }
        answer = shorter;
    }
}

fn unwrapped<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    (!inner.ends_with('\\')).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_where_models_put_them() {
        let cases = [
            ("So $x = 3$, and \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
            ("first \\boxed{1}, no: \\boxed{\\{2, \\sqrt{3}\\}}", "\\{2, \\sqrt{3}\\}"),
            ("The final answer is $\\frac{3}{4}$. I hope it is correct.", "\\frac{3}{4}"),
            ("The answer is 42.", "42"),
            ("**Answer:** 3.5", "3.5"),
            ("Final Answer: The largest $n$ is 34. I hope it is correct.", "34"),
            ("We find that $a=1$ and so $b = 7$.", "b = 7"),
            ("\\$32,\\!348", "\\$32,\\!348"),
            ("12 \\text{ cm}", "12 \\text{ cm}"),
            ("\\boxed 5", "5"),
            ("\\boxed{unfinished", "unfinished"),
            ("\\boxed{5 \\\\}", "5"),
            ("are: \\[ \\boxed{-2} \\quad \\text{and} \\quad \\boxed{1}. \\]", "-2, 1"),
            ("$x = \\boxed{1}$, $x = \\boxed{2}$ or $x = \\boxed{3}$", "1, 2, 3"),
            ("\\boxed{5}, so the answer is \\boxed{6}", "6"),
            ("$\\boxed{5}$\n\n$\\boxed{5}$", "5"),
        ];
        for (text, expected) in cases {
            assert_eq!(extract(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(extract(" \n "), None);
    }
}
