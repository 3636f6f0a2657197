//! Constraints made to be too large are refused in bounded time, with a sentence that names the limit.

use lacuna_constrain::{Constraint, Ending, Fit, Options, Refused, Vocabulary};
use serde_json::{Value, json};

fn compile(constraint: Constraint) -> Result<(), Refused> {
    let tokens =
        (0..=255u8).map(|byte| Some(vec![byte])).chain((0..200).map(|n| Some(vec![b'a' + n % 2; 1 + n as usize % 30])));
    constraint.compile(&Vocabulary::new(tokens, &[]), &Options::default()).map(|_| ())
}

#[track_caller]
fn too_large(constraint: Constraint) {
    let sentence = compile(constraint).expect_err("refused").to_string();
    assert!(sentence.contains("too large") && sentence.contains("limit"), "{sentence}");
}

#[test]
fn patterns_of_exponential_size() {
    for pattern in [
        "(a|b)*a(a|b){40}",
        "((a{1000}){1000}){1000}",
        "(((((a*)*)*)*b{1,500}){1,500})*",
        "(((a|b|c|d)*abc){1,50}(x|y)*){1,50}",
        r"\p{L}{1,1000}",
        "(.*a){0,100000}",
    ] {
        too_large(Constraint::Regex(pattern.into()));
    }
    // Nothing repeated any number of times is still nothing.
    compile(Constraint::Regex("(){4000000000}a".into())).expect("small");
}

#[test]
fn schemas_of_exponential_size() {
    // Each pattern is small enough alone and its automaton shrinks to nothing; together they take too long.
    let property =
        |at: usize| (format!("p{at}"), json!({"type": "string", "pattern": format!("(a|b)*a(a|b){{14}}{at}|^.*$")}));
    let properties: serde_json::Map<String, Value> = (0..1000).map(property).collect();
    too_large(Constraint::JsonSchema(json!({"type": "object", "properties": properties})));
    too_large(Constraint::JsonSchema(json!({"type": "string", "maxLength": 4_000_000_000u32})));
    let many = json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}, "maxItems": 200}, "maxItems": 200});
    too_large(Constraint::JsonSchema(many));
    // Each definition uses the next one twice.
    let definition = |at: usize| {
        let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
        (format!("d{at}"), json!({"type": "array", "prefixItems": [next, next], "minItems": 2}))
    };
    let mut definitions: serde_json::Map<String, Value> = (0..40).map(definition).collect();
    definitions.insert("d40".into(), json!({"type": "integer"}));
    too_large(Constraint::JsonSchema(json!({"$ref": "#/$defs/d0", "$defs": definitions})));
}

#[test]
fn schemas_nested_too_deep() {
    let definition = |at: usize| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)}));
    let definitions: serde_json::Map<String, Value> = (0..20_000).map(definition).collect();
    let chain = Constraint::JsonSchema(json!({"$ref": "#/$defs/d0", "$defs": definitions}));
    assert!(compile(chain).expect_err("refused").to_string().contains("nested more than"));
}

#[test]
fn grammars_of_exponential_size() {
    let mut text = String::from("root ::= a0\n");
    (0..40).for_each(|at| text += &format!("a{at} ::= a{} a{} \"x\"\n", at + 1, at + 1));
    text += "a40 ::= [a-z]";
    too_large(Constraint::Grammar(text));
    let groups = format!("root ::= {}\"a\"{}", "(".repeat(5000), ")".repeat(5000));
    assert!(compile(Constraint::Grammar(groups)).expect_err("refused").to_string().contains("nested more than"));
}

#[test]
fn texts_that_no_token_spells() {
    let vocabulary = Vocabulary::new([Some("a"), None], &[1]);
    let compiled = Constraint::Regex("a*b".into()).compile(&vocabulary, &Options::default()).expect("compiles");
    let impossible = Fit::new(&compiled, &[None; 4], Ending::Padded).expect_err("impossible");
    assert_eq!(impossible.shortest, None);
    assert!(impossible.to_string().contains("any number of tokens"));
}
