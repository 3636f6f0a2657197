//! MATH answers: whether two of them mean the same.
//!
//! An answer is read into a small tree (numbers, roots, powers, π, intervals, tuples, sets, matrices, words). Rational
//! values are compared exactly; everything else is compared at a few fixed points. What cannot be read is compared as text
//! after normalization.

mod answer;
mod atoms;
mod expression;
mod extract;
mod lexer;
mod numeric;
mod parser;

pub(crate) use extract::all_boxed;
pub use extract::extract;

use answer::Answer;

/// Longer answers are compared as text only: no answer of a benchmark comes near.
const MAX_ANSWER_BYTES: usize = 2000;

/// True if `answer` means the same as `gold`. Both are bare answers, as in `\boxed{}`.
pub fn equivalent(gold: &str, answer: &str) -> bool {
    let (plain_gold, plain_answer) = (stripped(gold), stripped(answer));
    if !plain_gold.is_empty() && plain_gold == plain_answer {
        return true;
    }
    if gold.len() > MAX_ANSWER_BYTES || answer.len() > MAX_ANSWER_BYTES {
        return false;
    }
    let (golds, answers) = (readings(gold), readings(answer));
    // What cannot be read before `=` says what the value is of: `\gcd(24, 36) = 12`.
    let value = answer.rsplit_once('=').filter(|_| answers.is_empty()).map_or(Vec::new(), |(_, value)| readings(value));
    let means = |answer: &Answer| golds.iter().any(|gold| gold.equals(answer));
    if answers.iter().chain(&value).any(|answer| means(answer) || answer.stated().is_some_and(|value| means(&value))) {
        return true;
    }
    let worded = |readings: &[Answer]| matches!(readings, [Answer::Text(_)]);
    if worded(&golds) || worded(&answers) || golds.is_empty() && answers.is_empty() {
        let (gold, answer) = (spelled(gold), spelled(answer));
        return !gold.is_empty() && gold == answer;
    }
    false
}

/// An answer may be read in two ways, since a comma may group digits or separate values: `(1,234)` is a point or a number
/// in parentheses. What can be one number, such as `58,500`, is one.
fn readings(text: &str) -> Vec<Answer> {
    let grouped = parser::parse(text, true);
    let separated = match grouped {
        Some(Answer::Expression(_) | Answer::Percent(_)) if !text.contains(['(', '[']) => None,
        _ => parser::parse(text, false).filter(|separated| Some(separated) != grouped.as_ref()),
    };
    grouped.into_iter().chain(separated).collect()
}

/// The text without what never carries meaning.
fn stripped(text: &str) -> String {
    let text = text.replace("\\left", "").replace("\\right", "").replace("\\!", "").replace("\\,", "");
    text.replace("dfrac", "frac").replace("tfrac", "frac").chars().filter(|c| !c.is_whitespace() && *c != '$').collect()
}

/// An answer that is not all mathematics, without what does not matter in words. Signs do: `-3` is not `3`.
fn spelled(text: &str) -> String {
    let text = ["\\textbf", "\\text", "\\mbox", "\\mathrm"]
        .iter()
        .fold(stripped(text), |text, command| text.replace(command, ""));
    let matters = |c: &char| c.is_alphanumeric() || "+-\u{2212}*/^<>=|%".contains(*c);
    text.chars().filter(matters).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_answers_are_recognized() {
        let pairs = [
            ("\\frac{1}{2}", "0.5"),
            ("\\frac12", "1/2"),
            ("\\frac 59", "\\dfrac{5}{9}"),
            ("-\\frac{3}{4}", "\\frac{-3}{4}"),
            ("1\\frac{4}{5}", "\\frac{9}{5}"),
            ("137 \\frac{1}{2}", "137.5"),
            ("11\\sqrt2", "11\\sqrt{2}"),
            ("\\frac{1}{\\sqrt{3}}", "\\frac{\\sqrt{3}}{3}"),
            ("\\sqrt[3]{8}", "2"),
            ("2\\sqrt{113}", "\\sqrt{452}"),
            ("18+2\\pi", "2(\\pi+9)"),
            ("\\frac{20000}{\\pi}", "20000/π"),
            ("x^2+2x+1", "(x+1)^2"),
            ("(a+5)(b+2)", "ab+2a+5b+10"),
            ("\\cot x", "\\frac{\\cos x}{\\sin x}"),
            ("\\sin^2 x", "1-\\cos^2 x"),
            ("\\log_2 8", "3"),
            ("x=5", "5"),
            ("y = 2x + 3", "2x+3=y"),
            ("5x - 7y + 11z + 4 = 0", "-5x+7y-11z=4"),
            ("1,-2", "-2, 1"),
            ("1 \\pm \\sqrt{19}", "1+\\sqrt{19}, 1-\\sqrt{19}"),
            ("\\{1\\pm\\sqrt{5},-2\\}", "-2, 1-\\sqrt5, 1+\\sqrt5"),
            ("x = 1 \\text{ or } x = -2", "-2, 1"),
            ("(3,4]", "3 < x \\le 4"),
            ("(-\\infty, 0]", "x \\leq 0"),
            ("x \\in [-2,7]", "[-2,7]"),
            ("(-\\infty, 2) \\cup (3, \\infty)", "(3,\\infty)\\cup(-\\infty,2)"),
            ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3, \\pi/2)"),
            ("\\begin{pmatrix} -1/3 \\\\ 2/3 \\end{pmatrix}", "\\begin{bmatrix}-\\frac13\\\\\\frac23\\end{bmatrix}"),
            ("\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}", "\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}"),
            ("\\begin{pmatrix} -1 \\\\ 2 \\end{pmatrix}", "-\\begin{pmatrix} 1 \\\\ -2 \\end{pmatrix}"),
            ("10,\\!080", "10080"),
            ("11,\\! 111,\\! 111,\\! 100", "11111111100"),
            ("58,500", "58500"),
            ("\\$32,\\!348", "32348"),
            ("\\$18.90", "18.9"),
            ("5.4 \\text{ cents}", "5.4"),
            ("864 \\mbox{ inches}^2", "864"),
            ("15\\mbox{ cm}^2", "15 cm^2"),
            ("90^\\circ", "90"),
            ("\\frac{270}7\\text{ degrees}", "\\frac{270}{7}^\\circ"),
            ("50\\%", "50"),
            ("50\\%", "0.5"),
            ("52_8", "52_{8}"),
            ("2516_8", "2516"),
            ("\\text{(C)}", "C"),
            ("\\text{Evelyn}", "evelyn"),
            ("\\text{even}", "Even."),
            ("6 - 5i", "-5i+6"),
            (".0000672", "6.72 \\times 10^{-5}"),
            ("0.\\overline{3}", "\\frac13"),
            ("\\frac{1}{3}", "0.333333"),
            ("\\frac{1}{3}", "0.33333333"),
            ("\\pi", "3.1415927"),
            ("0.1\\overline{6}", "\\frac{1}{6}"),
            ("5!", "120"),
            ("\\binom{5}{2}", "10"),
            ("2^{10}", "1024"),
            ("|{-3}|", "3"),
            ("\\{1,2,3\\}", "\\{3,2,1\\}"),
            ("(1,234)", "(1, 234)"),
            ("\\frac{11}{2}", "5 1/2"),
            ("-\\frac{11}{2}", "-5 1/2"),
            ("\\frac{1}{3}", "0.\\bar{3}"),
            ("\\frac{5}{6}", "0.8\\bar3"),
            ("\\sqrt[3]{-8}", "-2"),
            ("-\\sqrt[3]{2}", "\\sqrt[3]{-2}"),
            ("12", "\\text{12}"),
            ("12", "\\underline{12}"),
            ("\\text{June 20}", "June 20"),
            ("\\text{10 a.m.}", "10 \\text{ a.m.}"),
            ("\\tan^{-1} 2", "\\arctan 2"),
            ("2^{10000}", "4^{5000}"),
            ("12", "x = \\textbf{12 cm}"),
            ("5", "5\\text{ min}"),
            ("5", "5 sec"),
            ("5", "€5"),
            ("8", "8 sq units"),
            ("8", "\\color{blue}{8}"),
            ("7", "\\approx 7"),
            ("60", "\\angle ABC = 60^\\circ"),
            ("(-\\infty,\\infty)", "\\mathbb{R}"),
            ("(-\\infty,-1)\\cup(1,\\infty)", "x<-1 \\text{ or } x>1"),
            ("(0,1)\\cup(2,3)", "(0,1) \\bigcup (2,3)"),
            ("\\text{SSS}", "SSS"),
            ("\\frac{3}{4}", "¾"),
            ("\\mathbb{Z}\\setminus\\{3\\}", "\\mathbb Z \\setminus \\{ 3 \\}"),
            ("300000", "3e5"),
            ("300,\\!000", "3E+5 \\text{ m}"),
            (".0000672", "6.72e-5"),
            ("2e^5", "e^5 \\cdot 2"),
            ("(2,\\infty)", "\\{x \\mid x > 2\\}"),
            ("(2,\\infty)", "\\left\\{ x \\;\\middle|\\; x > 2 \\right\\}"),
            ("x \\in [-2,7]", "\\{x \\in \\mathbb{R} : -2 \\le x \\le 7\\}"),
            ("(-\\infty, 2) \\cup (3, \\infty)", "\\{x | x < 2 \\text{ or } x > 3\\}"),
            ("(-\\infty, 2) \\cup (3, \\infty)", "\\mathbb{R} \\setminus [2,3]"),
            ("(0,9) \\cup (9,36)", "(0,36) \\setminus \\{9\\}"),
            ("(-\\infty,-1)\\cup(-1,2]\\cup(3,\\infty)", "\\mathbb{R} \\setminus (2,3] \\setminus \\{-1\\}"),
            ("\\sqrt{51}", "\\sqrt{51} \\approx 7.14"),
            ("\\frac{270}{7}", "\\theta = \\frac{270}{7}^\\circ ≈ 38.57^\\circ"),
            ("12", "x \\approx 12"),
            ("1 \\pm \\sqrt{19}", "x = \\frac{2 \\pm \\sqrt{76}}{2}"),
            ("52_8", "52_{\\text{eight}}"),
            ("52_8", "(52)_{8}"),
            ("52_8", "52_{\\text{base }8}"),
            (
                "\\begin{pmatrix} 1/5 \\\\ -18/5 \\end{pmatrix}",
                "\\begin{pmatrix} \\frac15 \\\\[6pt] -\\frac{18}5 \\end{pmatrix}",
            ),
            ("\\begin{pmatrix} -7 \\\\ 16 \\\\ 5 \\end{pmatrix}", "[-7, 16, 5]"),
            ("\\text{(C)}", "\\boxed{C}"),
            ("90^\\circ", "90{}^\\circ"),
            ("\\frac{3}{10}", "\\frac{3}{10} \\text{ or } 0.3"),
        ];
        for (gold, answer) in pairs {
            assert!(equivalent(gold, answer), "{gold} = {answer}");
            assert!(equivalent(answer, gold), "{answer} = {gold}");
            assert!(equivalent(gold, gold), "{gold}");
        }
    }

    #[test]
    fn near_misses_are_refused() {
        let pairs = [
            ("\\frac{1}{2}", "\\frac{1}{3}"),
            ("\\frac{1}{3}", "0.333"),
            ("\\pi", "3.14"),
            ("\\pi", "\\frac{22}{7}"),
            ("\\sqrt{51}", "\\sqrt{52}"),
            ("(3,4]", "[3,4]"),
            ("(3,4]", "(3,4)"),
            ("(2,\\infty)", "(-2,\\infty)"),
            ("(2,\\infty)", "(2,-\\infty)"),
            ("(6,31,-1)", "(6,31,1)"),
            ("(-2,1)", "(1,-2)"),
            ("1,-2", "1,2"),
            ("1,-2", "1"),
            ("3, 5, 7", "3, 5"),
            ("1 \\pm \\sqrt{19}", "1+\\sqrt{19}"),
            ("52_8", "52_9"),
            ("x^2+2x+1", "x^2+2x+2"),
            ("2k+2", "2n+2"),
            ("y = 2x + 3", "y = 2x - 3"),
            ("5x - 7y + 11z + 4 = 0", "5x - 7y + 11z = 4"),
            ("\\text{even}", "odd"),
            ("\\text{(C)}", "D"),
            ("6 - 5i", "6+5i"),
            ("10,\\!080", "10.080"),
            ("50\\%", "5"),
            ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 2 \\\\ 1 \\end{pmatrix}"),
            ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\end{pmatrix}"),
            ("1000000000000", "1000000000001"),
            ("2^{100}", "1267650600228229401496703205375"),
            ("-1", "1"),
            (".0000672", ".0000673"),
            ("58,500", "500,58"),
            ("58,500", "58"),
            ("\\frac{1}{3}", "0.333334"),
            ("5", ""),
            ("", ""),
            ("\\text{east}", "\\text{west}"),
            ("x < 3", "x > 3"),
            ("5", "-€5"),
            ("\\text{June 20}", "July 20"),
            ("\\text{10 a.m.}", "10 \\text{ p.m.}"),
            ("2^{10000}", "2^{9999}"),
            ("0", "10 000"),
            ("6", "2 3"),
            ("2", "1 \\quad 2"),
            ("\\frac{5}{2}", "5 1/2"),
            ("0", "0.\\bar{3}"),
            ("\\frac{1}{2}", "\\frac{12}"),
            ("\\mathbb{Z}\\setminus\\{-3\\}", "\\mathbb{Z}\\setminus\\{3\\}"),
            ("x\\equiv 3\\pmod 5", "x\\equiv -3\\pmod 5"),
            ("x^2+y^2=1", "x^2+y^2=2"),
            ("300000", "3e6"),
            ("300000", "3e-5"),
            (".0000672", "6.72e-4"),
            ("2e^5", "2e5"),
            ("(2,\\infty)", "\\{x \\mid x \\ge 2\\}"),
            ("(2,\\infty)", "\\{x \\mid\\}"),
            ("(2,\\infty)", "\\{x \\in [0,9] \\mid x > 2\\}"),
            ("(2,\\infty)", "\\{x \\in \\mathbb{Z} \\mid x > 2\\}"),
            ("(0,9) \\cup (9,36)", "(0,36) \\setminus \\{8\\}"),
            ("(-\\infty, 2) \\cup (3, \\infty)", "\\mathbb{R} \\setminus (2,3)"),
            ("(0,36)", "(0,36) \\setminus \\{40\\}"),
            ("7.14", "\\sqrt{51} \\approx 7.14"),
            ("\\sqrt{51}", "\\sqrt{52} \\approx 7.14"),
            ("1 \\pm \\sqrt{19}", "\\frac{2 \\pm \\sqrt{19}}{2}"),
            ("52_8", "52_{\\text{nine}}"),
            ("1", "no solution"),
            ("\\text{no}", "no solution"),
            ("\\frac{3}{10}", "\\frac{3}{10} \\text{ or } 0.4"),
        ];
        for (gold, answer) in pairs {
            assert!(!equivalent(gold, answer), "{gold} ≠ {answer}");
            assert!(!equivalent(answer, gold), "{answer} ≠ {gold}");
        }
    }

    #[test]
    fn an_equation_may_state_the_answer_but_is_not_answered_by_one_side() {
        for (gold, answer) in [
            ("17", "m + n = 17"),
            ("3", "f(2) = 3"),
            ("2x+1", "f^{-1}(x) = 2x+1"),
            ("5", "\\overline{AB} = 5"),
            ("120", "5! = 120"),
            ("\\frac{3}{10}", "\\frac{12}{40} = 0.3"),
            ("12", "\\gcd(24, 36) = 12"),
            ("12", "\\sum_{i=1}^{3} a_i = 12"),
        ] {
            assert!(equivalent(gold, answer), "{gold} = {answer}");
        }
        for (gold, answer) in [
            ("x^2+y^2=1", "1"),
            ("5x-7y+4=0", "0"),
            ("12", "2x = 12"),
            ("5", "x + 3 = 5"),
            ("13", "3 \\cdot 4 = 13"),
            ("12", "3 \\cdot 4 = 13"),
            ("1", "\\sum_{i=1}^{3} a_i"),
        ] {
            assert!(!equivalent(gold, answer), "{gold} ≠ {answer}");
        }
    }

    #[test]
    fn no_answer_takes_long() {
        let nested = (0..20).fold("x".to_string(), |inner, _| format!("1\\frac{{{inner}}}{{2}}"));
        let primes = (2..400u32).filter(|n| (2..*n).all(|d| n % d != 0));
        let sum = primes.map(|p| format!("1/{p}^{{4000}}")).collect::<Vec<_>>().join("+");
        let begun = std::time::Instant::now();
        for text in [nested, sum] {
            assert!(!equivalent("7", &text));
        }
        assert!(begun.elapsed().as_secs() < 5);
    }

    #[test]
    fn garbage_is_no_answer_and_no_crash() {
        let deep = "(".repeat(5000);
        let tower = "2^".repeat(3000) + "2";
        let long = "\\frac{1}{".repeat(400);
        let bars = "|".repeat(300);
        for text in [
            deep.as_str(),
            &tower,
            &long,
            &bars,
            "\\",
            "\\frac",
            "{",
            "}",
            "^",
            "_",
            "\\begin{pmatrix}",
            "9^9^9^9^9",
            "9e999999999",
            "9e99999999999",
            "\\sqrt",
            "1/0",
            "0^{-1}",
            "!!!",
        ] {
            assert!(!equivalent("7", text), "{text}");
            equivalent(text, text);
        }
        assert!(!equivalent("1/0", "2/0"));
    }
}
