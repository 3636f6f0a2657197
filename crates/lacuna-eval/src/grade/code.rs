//! Programs from answers.

/// The code in an answer: its first fenced block, else all of it.
///
/// A fence that is never closed ends with the text; the language behind the fence does not matter.
pub fn code_of(answer: &str) -> &str {
    let Some(open) = answer.find("```") else { return answer };
    let after = &answer[open + 3..];
    let Some(line_end) = after.find('\n') else { return &answer[..open] };
    // A fence with text behind it that is no language closes a block that the prompt had opened.
    if !after[..line_end].trim().chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '+' | '-' | '.')) {
        return answer[..open].trim_end_matches(' ');
    }
    if open > 0 && answer[..open].trim_start_matches('\n').starts_with([' ', '\t']) {
        return &answer[..open];
    }
    let block = &after[line_end + 1..];
    block.find("```").map_or(block, |close| &block[..close])
}

/// All fenced blocks.
fn blocks(answer: &str) -> impl Iterator<Item = &str> {
    answer.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n').map(|(_, code)| code))
}

/// HumanEval: the prompt is the head of a function. An answer continues it, or writes the function again.
pub fn completion(prompt: &str, answer: &str, entry_point: &str) -> String {
    // An answer may show how to install or call the function before it writes it.
    let code = blocks(answer).find(|block| defines(block, entry_point)).unwrap_or_else(|| code_of(answer)).trim_end();
    let body = code.trim_start_matches(['\n', '\r']);
    if defines(body, entry_point) || body.starts_with([' ', '\t']) || body.is_empty() {
        return format!("{prompt}\n{body}\n");
    }
    if first_line_is_trimmed(body) {
        return format!("{prompt}\n    {body}\n");
    }
    // A body that lost its indentation, as answers in a fence do.
    let indented: Vec<String> =
        body.lines().map(|line| if line.trim().is_empty() { String::new() } else { format!("    {line}") }).collect();
    format!("{prompt}\n{}\n", indented.join("\n"))
}

/// True if only the first line lost its indentation, as happens to a text whose ends are trimmed.
fn first_line_is_trimmed(body: &str) -> bool {
    let mut lines = body.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else { return false };
    let indents: Vec<usize> = lines.map(|line| line.len() - line.trim_start_matches(' ').len()).collect();
    // What a first line opens stands a level deeper than the line itself did.
    let next = if first.trim_end().ends_with(':') { 8 } else { 4 };
    indents.first().is_some_and(|indent| *indent >= next) && indents.iter().all(|indent| *indent >= 4)
}

/// True if `code` defines the function at its top level.
fn defines(code: &str, name: &str) -> bool {
    let begins = |line: &str, word: &str| {
        line.strip_prefix(word)
            .map(str::trim_start)
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    code.lines()
        .any(|line| begins(line, "def ") || begins(line, "async def ") || begins(line, "") && line.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_taken_from_its_fence() {
        assert_eq!(code_of("```python\nx = 1\n```\nDone."), "x = 1\n");
        assert_eq!(code_of("Here:\n```\nx = 1\n"), "x = 1\n");
        assert_eq!(code_of("x = 1"), "x = 1");
        assert_eq!(code_of("    return 1\n```\nThat is it."), "    return 1\n");
        assert_eq!(code_of("return 1\n``` is it"), "return 1\n");
    }

    #[test]
    fn a_completion_may_continue_or_rewrite_the_function() {
        let prompt = "def f(x):\n    \"\"\"Doubles.\"\"\"\n";
        let continued = completion(prompt, "    return 2 * x", "f");
        assert!(continued.ends_with("\n    return 2 * x\n"), "{continued}");
        let bare = completion(prompt, "```python\ny = 2 * x\nreturn y\n```", "f");
        assert!(bare.ends_with("\n    y = 2 * x\n    return y\n"), "{bare}");
        let again = completion(prompt, "```python\ndef f(x):\n    return x + x\n```", "f");
        assert!(again.ends_with("\ndef f(x):\n    return x + x\n"), "{again}");
        assert!(!defines("def ff(x): pass", "f"));
        let second =
            completion(prompt, "```sh\npip install x\n```\nthen\n```python\ndef f(x):\n    return 2 * x\n```", "f");
        assert!(second.ends_with("\ndef f(x):\n    return 2 * x\n") && !second.contains("pip"), "{second}");
        let trimmed = completion(prompt, "for y in [x]:\n        x += y\n    return x", "f");
        assert!(trimmed.ends_with("\n    for y in [x]:\n        x += y\n    return x\n"), "{trimmed}");
        let bare = completion(prompt, "for y in [x]:\n    x += y\nreturn x", "f");
        assert!(bare.ends_with("\n    for y in [x]:\n        x += y\n    return x\n"), "{bare}");
        let one = completion(prompt, "if x:\n    return 2 * x", "f");
        assert!(one.ends_with("\n    if x:\n        return 2 * x\n"), "{one}");
    }
}
