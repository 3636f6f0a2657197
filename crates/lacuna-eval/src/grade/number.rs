//! GSM8K answers: finding the number, and comparing numbers.

/// Rule that extracts the answer from a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumberRule {
    /// The number after the first `####` (lm-eval's strict-match).
    Strict,
    /// The last number of the text (lm-eval's flexible-extract).
    Flexible,
    /// The number after the last "answer is": the one in `\boxed{}`, else the first; without such a phrase the last
    /// number of the text (KLASS).
    AnswerIs,
    /// The first of these that there is: what follows the last `####`, the last `\boxed{}`, what follows the last
    /// "answer is", the last number.
    Any,
}

impl NumberRule {
    /// The number that `text` gives as its answer, as written.
    pub fn extract(self, text: &str) -> Option<&str> {
        match self {
            Self::Strict => strict(text),
            Self::Flexible => flexible(text),
            Self::AnswerIs => match text.rfind("answer is") {
                Some(at) => {
                    let rest = &text[at + "answer is".len()..];
                    let boxed = rest.find("\\boxed{").and_then(|at| numbers(&rest[at..]).next());
                    boxed.or_else(|| numbers(rest).next())
                }
                None => numbers(text).last(),
            },
            Self::Any => {
                let marked = || text.rfind("####").and_then(|at| numbers(&text[at + 4..]).next());
                let boxed = || text.rfind("\\boxed{").and_then(|at| numbers(&text[at + 7..]).next());
                let stated = || {
                    let at = text.to_ascii_lowercase().rfind("answer is")?;
                    numbers(text[at..].lines().next()?).next()
                };
                marked().or_else(boxed).or_else(stated).or_else(|| numbers(text).last())
            }
        }
    }
}

/// The first match of `#### (\-?[0-9\.\,]+)`.
fn strict(text: &str) -> Option<&str> {
    text.match_indices("#### ").find_map(|(at, marks)| {
        let rest = &text[at + marks.len()..];
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let length = digits.find(|c: char| !matches!(c, '0'..='9' | '.' | ',')).unwrap_or(digits.len());
        (length > 0).then(|| &rest[..rest.len() - digits.len() + length])
    })
}

/// The last match of `(-?[$0-9.,]{2,})|(-?[0-9]+)`.
fn flexible(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let wide = |byte: &u8| matches!(byte, b'$' | b'0'..=b'9' | b'.' | b',');
    let (mut at, mut last) = (0, None);
    while at < bytes.len() {
        let start = at + usize::from(bytes[at] == b'-');
        let length = bytes[start..].iter().take_while(|byte| wide(byte)).count();
        if length >= 2 || (length == 1 && bytes[start].is_ascii_digit()) {
            last = Some(&text[at..start + length]);
            at = start + length;
        } else {
            at += 1;
        }
    }
    last
}

/// Separators between groups of digits, LaTeX's included.
const GROUPING: [&str; 4] = [",\\!", ",", "{,}", "\\,"];

/// The numbers of a text: digits with grouping commas and decimals, a minus in front if it is a sign.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let point = move |at: usize| bytes.get(at) == Some(&b'.') && digit(at + 1);
    // `.5`, unlike the points that end a sentence or count chapters.
    let leading_point = move |at: usize| {
        point(at)
            && !at.checked_sub(1).is_some_and(|before| bytes[before].is_ascii_alphanumeric() || bytes[before] == b'.')
    };
    let group = move |at: usize| {
        let separator = GROUPING.iter().find(|separator| bytes[at..].starts_with(separator.as_bytes()))?;
        let at = at + separator.len();
        (digit(at) && digit(at + 1) && digit(at + 2) && !digit(at + 3)).then_some(at + 3)
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = (at..bytes.len()).find(|&at| digit(at) || leading_point(at))?;
        at = start;
        while digit(at) {
            at += 1;
        }
        while let Some(end) = group(at) {
            at = end;
        }
        if point(at) {
            at += 1;
            while digit(at) {
                at += 1;
            }
        }
        Some(&text[signed(text, start)..at])
    })
}

/// Start of the number whose first digit is at `start`: a minus, perhaps with a currency sign between, belongs to it unless
/// that minus subtracts.
fn signed(text: &str, start: usize) -> usize {
    let before = text[..start].trim_end_matches(['$', '€', '£']);
    let Some(rest) = before.strip_suffix(['-', '\u{2212}']) else { return start };
    let subtracts = rest.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '%' | '}'));
    if subtracts { start } else { rest.len() }
}

/// A number without what does not matter: signs of currency, grouping commas, a trailing point, zeros after the point.
pub fn normalize(number: &str) -> String {
    let negative = number.trim_start().starts_with(['-', '\u{2212}']);
    let kept: String = number.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let kept = kept.trim_end_matches('.');
    let (whole, fraction) = kept.split_once('.').unwrap_or((kept, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if negative && !(whole == "0" && fraction.is_empty()) { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The number that a GSM8K solution ends with.
pub fn gold(solution: &str) -> Option<&str> {
    solution.rsplit_once("####").map(|(_, number)| number.trim()).filter(|number| !number.is_empty())
}

/// lm-eval's exact_match: the strings are equal after commas, dollars and a final point are removed.
pub fn exact_match(gold: &str, answer: &str) -> bool {
    let strip = |text: &str| {
        let text = text.replace([',', '$'], "");
        text.strip_suffix('.').map_or(text.clone(), str::to_string).to_lowercase()
    };
    strip(gold) == strip(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_finds_its_number() {
        let text = "She has 3 + 4 = 7 apples and sells 1,000 for $2.50.\n#### 1,234";
        assert_eq!(NumberRule::Strict.extract(text), Some("1,234"));
        assert_eq!(NumberRule::Flexible.extract(text), Some("1,234"));
        let cases = [
            (NumberRule::Strict, "the answer is 5", None),
            (NumberRule::Strict, "#### x then #### -7.", Some("-7.")),
            (NumberRule::Strict, "####5", None),
            (NumberRule::Flexible, "it costs $18.", Some("$18.")),
            (NumberRule::Flexible, "from 3 to 5", Some("5")),
            (NumberRule::Flexible, "nothing", None),
            (NumberRule::Flexible, "-12 degrees", Some("-12")),
            (NumberRule::AnswerIs, "The final answer is \\boxed{72} of 80", Some("72")),
            (NumberRule::AnswerIs, "answer is 3. The answer is 4 or 5", Some("4")),
            (NumberRule::AnswerIs, "so 1, 2, 3", Some("3")),
            (NumberRule::Any, "#### 42 and then 43", Some("42")),
            (NumberRule::Any, "####42", Some("42")),
            (NumberRule::Any, "\\boxed{1,234} after 99 steps", Some("1,234")),
            (NumberRule::Any, "The Answer is $1,234.00.", Some("1,234.00")),
            (NumberRule::Any, "10 - 3 = -7", Some("-7")),
            (NumberRule::Any, "a loss of -$15", Some("-$15")),
            (NumberRule::Any, "20 - 5", Some("5")),
            (NumberRule::Any, "20-5", Some("5")),
            (NumberRule::Any, "\u{2212}8", Some("\u{2212}8")),
            (NumberRule::Any, "", None),
            (NumberRule::Any, "#### .5", Some(".5")),
            (NumberRule::Any, "it costs $.50 each", Some(".50")),
            (NumberRule::Any, "so it is 7.", Some("7")),
            (NumberRule::Any, "see chapter 1.2.3", Some("3")),
            (NumberRule::Any, "\\boxed{1{,}234}", Some("1{,}234")),
            (NumberRule::Any, "\\boxed{\\$12,\\!345.60}", Some("12,\\!345.60")),
        ];
        for (rule, text, expected) in cases {
            assert_eq!(rule.extract(text), expected, "{rule:?} on {text}");
        }
    }

    #[test]
    fn marks_without_a_number_are_passed_over_however_many() {
        let text = "#### x ".repeat(200_000);
        assert_eq!(NumberRule::Strict.extract(&text), None);
        assert_eq!(NumberRule::Strict.extract(&(text + "#### 3")), Some("3"));
    }

    #[test]
    fn numbers_are_compared_by_value() {
        for (a, b) in [
            ("1,234", "1234"),
            ("1{,}234", "1234"),
            ("18.00", "18"),
            ("$5.", "5"),
            ("007", "7"),
            (".5", "0.50"),
            ("-0", "0"),
        ] {
            assert_eq!(normalize(a), normalize(b));
        }
        assert_ne!(normalize("-5"), normalize("5"));
        assert_ne!(normalize("1.5"), normalize("15"));
        assert_eq!(gold("a\n#### 70,000"), Some("70,000"));
        assert!(exact_match("70,000", "$70000."));
        assert!(!exact_match("18", "18.0"));
    }
}
