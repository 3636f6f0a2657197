//! Rendering of untrusted templates within limits of time, memory and stack.
//!
//! A template comes with a model, so it may be as hostile as any download. Instructions are counted (fuel). Everything that
//! can make a long text out of a short one, operators included, first charges what it would make to a common budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::machinery::{CompiledTemplate, Instruction, Instructions, TemplateConfig, Token};
use minijinja::machinery::{eval, make_string_output, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, filters};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::json::to_json;

/// The longest template, in bytes. The longest in use have some twenty thousand.
const SOURCE_BYTES: usize = 1 << 17;
/// The most tokens of an expression; parsing takes stack for each.
const EXPRESSION_TOKENS: usize = 1000;
/// The most `elif` and `else` that follow one another; parsing takes stack for each.
const BRANCHES: usize = 1000;
/// Instructions for any chat, and for each message.
const FUEL: u64 = 20_000;
const FUEL_PER_MESSAGE: u64 = 1_000;
/// The most instructions, however many messages there are.
const MAX_FUEL: u64 = 1_000_000;
/// Bytes that may be made for any chat, and for each byte of its messages.
const BYTES: usize = 16 << 20;
const BYTES_PER_BYTE: usize = 64;
/// The greatest depth of lists and mappings that are written out.
const DEPTH: usize = 64;
/// The longest number in a format string: a width or a precision.
const FORMAT_DIGITS: usize = 3;
/// Values that lie deep in one another take stack when they are dropped.
const STACK_BYTES: usize = 256 << 20;

/// Functions that stand for operators. No template can name them.
const ADD: &str = "+";
const CONCATENATE: &str = "~";
const MULTIPLY: &str = "*";

/// The bounds of one rendering.
pub(super) struct Bounds {
    fuel: u64,
    budget: Budget,
}

/// The bytes that may still be made.
#[derive(Clone)]
struct Budget(Arc<AtomicUsize>);

impl Bounds {
    /// The bounds for a chat of so many messages and bytes.
    pub(super) fn of(messages: usize, bytes: usize) -> Self {
        let fuel = FUEL.saturating_add(FUEL_PER_MESSAGE.saturating_mul(messages as u64)).min(MAX_FUEL);
        let bytes = BYTES.saturating_add(BYTES_PER_BYTE.saturating_mul(bytes));
        Self { fuel, budget: Budget(Arc::new(AtomicUsize::new(bytes))) }
    }

    /// Renders a template, on a stack of its own. The error is a sentence.
    pub(super) fn render(
        self,
        source: &str,
        variables: Value,
        extend: impl FnOnce(&mut Environment<'_>) + Send,
    ) -> Result<String, String> {
        let render = || {
            self.run(source, variables, extend).map_err(|error| {
                let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
                let reason = match error.kind() {
                    ErrorKind::OutOfFuel => "it takes too many steps".to_string(),
                    kind => error.detail().map_or_else(|| kind.to_string(), str::to_string),
                };
                reason + &line
            })
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("template".into()).stack_size(STACK_BYTES);
            let thread =
                thread.spawn_scoped(scope, render).map_err(|error| format!("no thread could be started: {error}"))?;
            thread.join().unwrap_or_else(|_| Err("the template engine fails on it".into()))
        })
    }

    fn run(self, source: &str, variables: Value, extend: impl FnOnce(&mut Environment<'_>)) -> Result<String, Error> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
        let longest = check(source, &syntax)?;
        let budget = &self.budget;
        let mut environment = Environment::new();
        environment.set_syntax(syntax.clone());
        // Plain text between tags is written without a charge, each time for one instruction.
        environment.set_fuel(Some(self.fuel.min((budget.left() / longest.max(1)) as u64)));
        extend(&mut environment);
        guard(&mut environment, budget);

        let none: Arc<dyn Fn(&str) -> AutoEscape + Send + Sync> = Arc::new(|_| AutoEscape::None);
        let config = TemplateConfig { syntax_config: syntax, default_auto_escape: none };
        let CompiledTemplate { mut instructions, mut blocks, .. } = CompiledTemplate::new("chat", source, &config)?;
        replace_operators(&mut instructions);
        blocks.values_mut().for_each(replace_operators);
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        eval(&environment, &instructions, variables, &blocks, &mut output, AutoEscape::None)?;
        Ok(text)
    }
}

/// Refuses a template that would take too much to parse. Returns the length of the longest plain text in it.
fn check(source: &str, syntax: &SyntaxConfig) -> Result<usize, Error> {
    let refuse = |why: String| Err(Error::new(ErrorKind::SyntaxError, why));
    if source.len() > SOURCE_BYTES {
        return refuse(format!("it has {} bytes, but {SOURCE_BYTES} is the most", source.len()));
    }
    let (mut longest, mut tokens, mut branches) = (0, 0, 0);
    // Products of constants are computed while the template is compiled.
    let (mut product, mut multiplies, mut opened) = (1usize, false, false);
    for token in tokenize(source, false, syntax.clone()) {
        let token = token?.0;
        tokens += 1;
        match &token {
            Token::TemplateData(text) => longest = longest.max(text.len()),
            Token::VariableStart | Token::BlockStart => (tokens, product, multiplies) = (0, 1, false),
            Token::Ident("elif" | "else") if opened => branches += 1,
            Token::Ident("endif" | "for") if opened => branches = 0,
            Token::Mul => multiplies = true,
            Token::Int(number) => product = product.saturating_mul(*number as usize),
            Token::Int128(_) => product = usize::MAX,
            Token::Str(text) => product = product.saturating_mul(text.len().max(1)),
            Token::String(text) => product = product.saturating_mul(text.len().max(1)),
            _ => {}
        }
        opened = matches!(token, Token::BlockStart);
        if tokens > EXPRESSION_TOKENS || branches > BRANCHES {
            return refuse("an expression in it is too long".into());
        }
        if multiplies && product > BYTES {
            return refuse("it multiplies to something too large".into());
        }
    }
    Ok(longest)
}

/// Operators that make longer values become calls of functions that charge for them.
fn replace_operators(instructions: &mut Instructions<'_>) {
    let mut index = 0;
    while let Some(instruction) = instructions.get_mut(index) {
        let function = match instruction {
            Instruction::Add => Some(ADD),
            Instruction::StringConcat => Some(CONCATENATE),
            Instruction::Mul => Some(MULTIPLY),
            _ => None,
        };
        if let Some(function) = function {
            *instruction = Instruction::CallFunction(function, Some(2));
        }
        index += 1;
    }
}

/// Filters and methods that write texts, charged for what they read.
macro_rules! writers {
    ($($name:ident),*) => { [$((stringify!($name), Value::from_function(filters::$name))),*] };
}

/// Puts the guarded operators, filters and methods into an environment.
fn guard(environment: &mut Environment<'_>, budget: &Budget) {
    for (name, source) in [(ADD, "a + b"), (CONCATENATE, "a ~ b"), (MULTIPLY, "a * b")] {
        let budget = budget.clone();
        environment.add_function(name, move |a: Value, b: Value| {
            let times = [&a, &b].into_iter().filter(|_| name == MULTIPLY).filter_map(Value::as_usize).max();
            budget.charge_made(name == CONCATENATE, [&a, &b], times.unwrap_or(1))?;
            Environment::new().compile_expression(source)?.eval(minijinja::context! { a, b })
        });
    }
    let charges = budget.clone();
    environment.set_formatter(move |output, state, value| {
        charges.charge(charges.written(value)?)?;
        minijinja::escape_formatter(output, state, value)
    });
    let charges = budget.clone();
    environment.set_unknown_method_callback(move |state, value, method, arguments| {
        charges.charge_call(method, value, arguments)?;
        unknown_method_callback(state, value, method, arguments)
    });
    let written = writers![
        replace, join, format, indent, pprint, string, upper, lower, title, capitalize, trim, split, lines, escape
    ];
    let listed = writers![
        list, batch, slice, map, sort, unique, reverse, dictsort, items, groupby, chain, zip, select, selectattr,
        reject, rejectattr
    ];
    let own = [("tojson", Value::from_function(to_json)), ("e", Value::from_function(filters::escape))];
    for (name, filter) in written.into_iter().chain(listed).chain(own) {
        let charges = budget.clone();
        environment.add_filter(name, move |state: &mut State<'_, '_>, value: Value, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            charges.charge_call(name, &value, &arguments)?;
            filter.call(state, &[&[value], &arguments[..]].concat())
        });
    }
    let (charges, range) = (budget.clone(), Value::from_function(minijinja::functions::range));
    environment.add_function("range", move |state: &mut State<'_, '_>, arguments: Rest<Value>| {
        let range = range.call(state, &arguments)?;
        charges.charge(ITEM_BYTES * range.len().unwrap_or(0))?;
        Ok(range)
    });
}

/// The bytes that an item of a list takes at least.
const ITEM_BYTES: usize = 32;

impl Budget {
    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes from the budget what is about to be made.
    fn charge(&self, bytes: usize) -> Result<(), Error> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        left.map(drop).map_err(|_| too_large())
    }

    /// Charges what an operator makes of two values.
    fn charge_made(&self, written: bool, values: [&Value; 2], times: usize) -> Result<(), Error> {
        let size = |value: &Value| match value.kind() {
            ValueKind::Seq | ValueKind::Iterable if !written => Ok(ITEM_BYTES * value.len().unwrap_or(0)),
            ValueKind::Number if !written => Ok(0),
            _ => self.written(value),
        };
        let size = size(values[0])?.saturating_add(size(values[1])?);
        self.charge(size.saturating_mul(times))
    }

    /// Charges what a filter or a method makes of a value.
    fn charge_call(&self, name: &str, value: &Value, arguments: &[Value]) -> Result<(), Error> {
        let items = |list: &Value| list.len().unwrap_or_else(|| list.as_str().map_or(1, str::len));
        let argument = |index: usize| arguments.get(index).map_or(Ok(0), |argument| self.written(argument));
        let bytes = match name {
            "replace" => {
                let from = argument(0)?.max(1);
                let length = self.written(value)?;
                length.saturating_add((length / from + 1).saturating_mul(argument(1)?))
            }
            // The method is called on the separator, the filter on the list.
            "join" => {
                let (list, between) = match value.as_str() {
                    Some(_) if !arguments.is_empty() => (&arguments[0], self.written(value)?),
                    _ => (value, argument(0)?),
                };
                self.written(list)?.saturating_add(items(list).saturating_mul(between))
            }
            "format" => {
                let digits = value.as_str().unwrap_or_default().split(|character: char| !character.is_ascii_digit());
                if digits.max_by_key(|digits| digits.len()).is_some_and(|digits| digits.len() > FORMAT_DIGITS)
                    || value.as_str().is_some_and(|format| format.contains('*'))
                {
                    return Err(too_large());
                }
                let mut bytes = self.written(value)?;
                for argument in arguments {
                    bytes = bytes.saturating_add(self.written(argument)?);
                }
                bytes.saturating_mul(items(value))
            }
            "indent" | "tojson" => {
                let numbers = arguments.iter().flat_map(|argument| {
                    let named = argument.get_attr("width").or_else(|_| argument.get_attr("indent"));
                    [argument.as_usize(), named.ok().and_then(|width| width.as_usize())]
                });
                let width = numbers.flatten().max().unwrap_or(4);
                self.written(value)?.saturating_mul(width.saturating_add(1))
            }
            "pprint" | "string" | "escape" | "e" => self.written(value)?,
            "upper" | "lower" | "title" | "capitalize" | "trim" | "strip" | "lstrip" | "rstrip" => {
                self.written(value)?
            }
            "split" | "lines" | "splitlines" => ITEM_BYTES.saturating_mul(self.written(value)?),
            "list" | "batch" | "slice" | "map" | "sort" | "unique" | "reverse" | "dictsort" | "items" | "keys"
            | "values" | "groupby" | "chain" | "zip" | "select" | "selectattr" | "reject" | "rejectattr" => {
                let given = arguments.iter().filter(|argument| argument.kind() == ValueKind::Number);
                let counts = given.filter_map(Value::as_usize).max().unwrap_or(0);
                ITEM_BYTES.saturating_mul(items(value).saturating_add(counts))
            }
            _ => 0,
        };
        self.charge(bytes)
    }

    /// The bytes that a value takes when it is written out; an error if that is more than there are, or if it lies too deep.
    fn written(&self, value: &Value) -> Result<usize, Error> {
        let (mut bytes, most) = (0, self.left());
        let mut open = vec![(value.clone(), 0)];
        while let Some((value, depth)) = open.pop() {
            bytes += value.as_str().map_or(8, str::len);
            if bytes > most || depth > DEPTH {
                return Err(too_large());
            }
            let inner = match value.kind() {
                ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => value.try_iter()?,
                _ => continue,
            };
            for item in inner {
                if value.kind() == ValueKind::Map {
                    open.push((value.get_item(&item)?, depth + 1));
                }
                open.push((item, depth + 1));
                bytes += 2;
                if bytes > most {
                    return Err(too_large());
                }
            }
        }
        Ok(bytes)
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::InvalidOperation, "it makes something too large or too deep")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, String> {
        let message = minijinja::context! { role => "user", content => "Hello." };
        let variables = minijinja::context! { messages => vec![message], bos_token => "<s>" };
        Bounds::of(1, 10).render(source, variables, |_| {})
    }

    #[test]
    fn ordinary_templates_are_rendered_as_without_bounds() {
        for (source, expected) in [
            (
                "{{ bos_token }}{% for m in messages %}{{ m['role'] + ': ' + m.content|trim + '\n' }}{% endfor %}",
                "<s>user: Hello.\n",
            ),
            (
                "{{ 'a' ~ 1 ~ true }}{{ 2 + 3 * 4 }}{{ 1.5 + 1 }}{{ '-' * 3 }}{{ ([1] + [2, 3])|length }}",
                "a1True142.5---3",
            ),
            (
                "{{ ['a', 'b']|join(', ') }} {{ ', '.join(['a', 'b']) }} {{ 'aXa'.replace('a', 'bb') }}",
                "a, b a, b bbXbb",
            ),
            (
                "{{ '%5.2f|%s'|format(1.5, 'x') }} {{ 'a\nb'|indent(2) }} {{ {'a': [1, 'é']}|tojson }}",
                " 1.50|x a\n  b {\"a\": [1, \"é\"]}",
            ),
            (
                "{% set ns = namespace(s='') %}{% for i in range(3) %}{% set ns.s = ns.s + i|string %}{% endfor %}{{ ns.s }}",
                "012",
            ),
            ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a' + 'b') }}{% set c %}{{ 1 }}{% endset %}{{ c }}", "<ab>1"),
            ("{% if messages|selectattr('role', 'equalto', 'user')|list|length == 1 %}one{% endif %}", "one"),
        ] {
            assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn hostile_templates_end_with_a_sentence() {
        let repeated = |part: &str, count: usize| part.repeat(count);
        let doubling = |step: &str| {
            format!("{{% set ns = namespace(s='x', l=[1]) %}}{{% for i in range(60) %}}{step}{{% endfor %}}")
        };
        for source in [
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}".into(),
            "{{ '%1000000000d'|format(1) }}".into(),
            "{{ '%*d'|format(1000000000, 1) }}".into(),
            "{{ '{:1000000000}'.format(1) }}".into(),
            doubling("{% set ns.s = ns.s ~ ns.s %}"),
            doubling("{% set ns.s = ns.s + ns.s %}"),
            doubling("{% set ns.s = ns.s * 2 %}"),
            doubling("{% set ns.s = ns.s.replace('x', 'xx') %}"),
            doubling("{% set ns.s = ns.s|replace('x', 'xx') %}"),
            doubling("{% set ns.s = [ns.s, ns.s]|join %}"),
            doubling("{% set ns.s = ''.join([ns.s, ns.s]) %}"),
            doubling("{% set ns.s = '%s%s'|format(ns.s, ns.s) %}"),
            doubling("{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}"),
            doubling("{% set ns.l = ns.l + ns.l %}{% set ns.s = ns.l|list %}"),
            doubling("{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l }}",
            doubling("{% set ns.s = ns.s|indent(1000000000, true) %}"),
            "{{ 'x'|indent(1000000000, true) }}".into(),
            "{{ 'x' * 90000000 }}".into(),
            format!("{{{{ {} 'x' }}}}", repeated("'x' * 1000000 ~ ", 400)),
            format!("{{{{ {}1 }}}}", repeated("not ", 20_000)),
            format!("{{{{ {}1 }}}}", repeated("-", 20_000)),
            format!("{{{{ 1{} }}}}", repeated("+1", 50_000)),
            format!("{{{{ a{} }}}}", repeated(".a", 40_000)),
            format!("{{{{ 1{} }}}}", repeated("|string", 10_000)),
            format!("{{{{ {}1 }}}}", repeated("(", 20_000)),
            format!("{{% if 0 %}}{}{{% endif %}}", repeated("{% elif 0 %}", 8_000)),
            repeated("{% if 1 %}", 5_000),
            repeated("x", 200_000),
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".into(),
            "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}".into(),
            "{% set ns = namespace(l=[]) %}{% for i in range(3000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}".into(),
            format!("{{% for i in range(100000) %}}{}{{% endfor %}}", repeated("x", 100_000)),
            "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [range(99999)|list] %}{% endfor %}".into(),
        ] {
            let shown: String = source.chars().take(80).collect();
            let refused = render(&source).expect_err(&shown);
            assert!(!refused.is_empty() && !refused.contains('\n'), "{shown}: {refused}");
        }
    }

    #[test]
    fn deep_values_are_dropped_within_the_stack() {
        let source = "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}done";
        let variables = minijinja::context! {};
        assert_eq!(Bounds::of(10_000, 0).render(source, variables, |_| {}).as_deref(), Ok("done"));
    }
}
