//! Regular expressions.

use regex_syntax::{
    ast::{self, Ast, ClassBracketed, ClassPerlKind, ClassSet, ClassSetItem, Flag, Flags, GroupKind},
    hir::{Class, Hir, HirKind, Look, translate::Translator},
};

use crate::{
    Refused,
    automaton::{Budget, Dfa, Expr},
    chars::{self, Encoding},
};

/// The bytes of a pattern at most.
const LENGTH: usize = 1 << 14;

/// The texts that a pattern matches from end to end.
pub(crate) fn whole(pattern: &str, budget: &Budget) -> Result<Expr, Refused> {
    expression(&parse(pattern)?, Encoding::Plain, budget)
}

/// The contents of JSON strings in which a pattern matches somewhere.
pub(crate) fn inside_json(pattern: &str, budget: &Budget) -> Result<Dfa, Refused> {
    let anything = || Ok(chars::any(Encoding::Json, budget)?.repeat(0, None));
    Expr::Seq(vec![anything()?, expression(&parse(pattern)?, Encoding::Json, budget)?, anything()?]).compile(budget)
}

fn parse(pattern: &str) -> Result<Hir, Refused> {
    let refused = |reason: String| Refused::new(format!("the pattern {} is refused: {reason}", quoted(pattern)));
    if pattern.len() > LENGTH {
        return Err(refused(format!("it is longer than {LENGTH} bytes")));
    }
    let mut tree = ast::parse::Parser::new().parse(pattern).map_err(|error| refused(error.kind().to_string()))?;
    narrow(&mut tree, &mut false).map_err(|reason| refused(reason.into()))?;
    let hir = Translator::new().translate(pattern, &tree).map_err(|error| refused(error.kind().to_string()))?;
    let looks = hir.properties().look_set();
    if looks.iter().any(|look| !matches!(look, Look::Start | Look::End)) {
        return Err(refused("word boundaries and line anchors are not supported; ^ and $ are".into()));
    }
    Ok(hir)
}

/// A text in quotes, cut where it is long.
pub(crate) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

fn expression(hir: &Hir, encoding: Encoding, budget: &Budget) -> Result<Expr, Refused> {
    let all =
        |parts: &[Hir]| parts.iter().map(|part| expression(part, encoding, budget)).collect::<Result<Vec<_>, _>>();
    Ok(match hir.kind() {
        HirKind::Empty => Expr::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => chars::text(text, encoding, budget)?,
            Err(_) => Expr::never(),
        },
        HirKind::Class(Class::Unicode(class)) => {
            chars::class(class.iter().map(|range| (range.start(), range.end())), encoding, budget)?
        }
        // A pattern that matches only UTF-8 has only ASCII in classes of bytes.
        HirKind::Class(Class::Bytes(class)) => {
            chars::class(class.iter().map(|range| (range.start().into(), range.end().into())), encoding, budget)?
        }
        HirKind::Look(Look::Start) => Expr::Start,
        HirKind::Look(Look::End) => Expr::End,
        HirKind::Look(_) => Expr::never(),
        HirKind::Repetition(repetition) => {
            expression(&repetition.sub, encoding, budget)?.repeat(repetition.min, repetition.max)
        }
        HirKind::Capture(capture) => expression(&capture.sub, encoding, budget)?,
        HirKind::Concat(parts) => Expr::Seq(all(parts)?),
        HirKind::Alternation(parts) => Expr::Alt(all(parts)?),
    })
}

/// Dialects disagree about `\d`, `\w`, `\s` and `.` outside ASCII. Each is read here so that what matches here matches in
/// all of them: as its smallest meaning, and as its largest where it is negated. `dot_all` says whether `.` is any character
/// (`(?s)`).
fn narrow(tree: &mut Ast, dot_all: &mut bool) -> Result<(), &'static str> {
    let set = |flags: &Flags, dot_all: &mut bool| {
        *dot_all = flags.flag_state(Flag::DotMatchesNewLine).unwrap_or(*dot_all);
    };
    match tree {
        Ast::Dot(span) if *dot_all => *tree = Ast::ClassBracketed(class(r"[\x{0}-\x{10ffff}]", **span)?),
        Ast::Dot(span) => *tree = Ast::ClassBracketed(class(r"[^\n\r\x{2028}\x{2029}]", **span)?),
        Ast::ClassPerl(perl) => *tree = Ast::ClassBracketed(perl_class(perl, false)?),
        Ast::ClassBracketed(bracketed) => {
            let negated = bracketed.negated;
            narrow_set(&mut bracketed.kind, negated)?;
        }
        Ast::Repetition(repetition) => narrow(&mut repetition.ast, dot_all)?,
        Ast::Group(group) => {
            let mut inside = *dot_all;
            if let GroupKind::NonCapturing(flags) = &group.kind {
                set(flags, &mut inside);
            }
            narrow(&mut group.ast, &mut inside)?;
        }
        Ast::Alternation(parts) => parts.asts.iter_mut().try_for_each(|part| narrow(part, dot_all))?,
        Ast::Concat(parts) => parts.asts.iter_mut().try_for_each(|part| narrow(part, dot_all))?,
        Ast::Flags(flags) => set(&flags.flags, dot_all),
        Ast::Empty(_) | Ast::Literal(_) | Ast::Assertion(_) | Ast::ClassUnicode(_) => {}
    }
    Ok(())
}

fn narrow_set(set: &mut ClassSet, negated: bool) -> Result<(), &'static str> {
    match set {
        ClassSet::BinaryOp(_) => Err("&&, -- and ~~ in a class mean different things elsewhere; escape them"),
        ClassSet::Item(item) => narrow_item(item, negated),
    }
}

fn narrow_item(item: &mut ClassSetItem, negated: bool) -> Result<(), &'static str> {
    match item {
        ClassSetItem::Perl(perl) => {
            *item = ClassSetItem::Bracketed(perl_class(perl, negated)?);
            Ok(())
        }
        ClassSetItem::Bracketed(_) | ClassSetItem::Ascii(_) => {
            Err("[ in a class means different things elsewhere; escape it")
        }
        ClassSetItem::Union(union) => union.items.iter_mut().try_for_each(|item| narrow_item(item, negated)),
        _ => Ok(()),
    }
}

/// A class such as `\d`, narrow, or wide inside a negated class.
fn perl_class(perl: &ast::ClassPerl, inside_negated: bool) -> Result<Box<ClassBracketed>, &'static str> {
    let text = match (&perl.kind, perl.negated, inside_negated) {
        (ClassPerlKind::Digit, false, false) => "[0-9]",
        (ClassPerlKind::Digit, false, true) => r"[\p{N}]",
        (ClassPerlKind::Digit, true, false) => r"[^\p{N}]",
        (ClassPerlKind::Digit, true, true) => "[^0-9]",
        (ClassPerlKind::Word, false, false) => "[0-9A-Za-z_]",
        (ClassPerlKind::Word, false, true) => r"[\p{N}\p{Alphabetic}\p{M}\p{Pc}\p{Join_Control}]",
        (ClassPerlKind::Word, true, false) => r"[^\p{N}\p{Alphabetic}\p{M}\p{Pc}\p{Join_Control}]",
        (ClassPerlKind::Word, true, true) => "[^0-9A-Za-z_]",
        (ClassPerlKind::Space, false, false) => r"[\t\n\x0b\f\r ]",
        (ClassPerlKind::Space, false, true) => r"[\p{White_Space}\x1c-\x1f\x{feff}]",
        (ClassPerlKind::Space, true, false) => r"[^\p{White_Space}\x1c-\x1f\x{feff}]",
        (ClassPerlKind::Space, true, true) => r"[^\t\n\x0b\f\r ]",
    };
    class(text, perl.span)
}

/// A class in brackets, placed where another stood.
fn class(text: &str, span: ast::Span) -> Result<Box<ClassBracketed>, &'static str> {
    match ast::parse::Parser::new().parse(text) {
        Ok(Ast::ClassBracketed(ref bracketed)) => {
            let mut bracketed = bracketed.clone();
            bracketed.span = span;
            Ok(bracketed)
        }
        _ => Err("a class of characters could not be read"),
    }
}
