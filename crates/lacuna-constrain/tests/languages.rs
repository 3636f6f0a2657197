//! Languages that constraints accept, and constraints that are refused.

use std::sync::Arc;

use lacuna_constrain::{Compiled, Constraint, Options, Refused, Spacing, Vocabulary};
use serde_json::{Value, json};

fn bytes() -> Vocabulary {
    Vocabulary::new((0..=255u8).map(|byte| Some([byte])), &[])
}

fn compile(constraint: Constraint) -> Result<Arc<Compiled>, Refused> {
    constraint.compile(&bytes(), &Options::default())
}

fn schema(schema: Value) -> Arc<Compiled> {
    compile(Constraint::JsonSchema(schema.clone())).unwrap_or_else(|refused| panic!("{schema}: {refused}"))
}

fn refusal(constraint: Constraint) -> String {
    compile(constraint).expect_err("refused").to_string()
}

#[track_caller]
fn check(compiled: &Compiled, accepted: &[&str], others: &[&str]) {
    for text in accepted {
        assert!(compiled.matches(text.as_bytes()), "{text:?} is not accepted");
    }
    for text in others {
        assert!(!compiled.matches(text.as_bytes()), "{text:?} is accepted");
    }
}

#[test]
fn regular_expressions_match_from_end_to_end() {
    let regex = |text: &str| compile(Constraint::Regex(text.into())).expect("compiles");
    check(&regex(r"#### -?\d+"), &["#### 12", "#### -3"], &["#### ", "x#### 1", "#### 1 ", "#### ٣"]);
    check(&regex("^a|b$"), &["a", "b"], &["ab", ""]);
    check(&regex("(^a|b)*"), &["", "a", "abb", "bb"], &["ba", "aa"]);
    check(&regex("(?i)größe.?"), &["GRÖSSE".replace("SS", "ß").as_str(), "Größe!"], &["größe\n", "grösse"]);
    check(&regex("[^a]"), &["é", "\n", "🙂"], &["a", "", "ab", "\u{e9}\u{e9}"]);
    assert!(!regex("[^a]").matches(&[0xc3]));
    check(&regex("(?s)a.b"), &["a\nb", "axb"], &["ab"]);
    check(&regex("a(?s:.)|.b"), &["a\n", "xb"], &["\nb"]);
    check(&regex(r"\D\W\S"), &["a!b"], &["1!b", "aab", "a! ", "٣!b"]);
}

#[test]
fn patterns_that_cannot_be_kept_are_refused() {
    let regex = |text: &str| refusal(Constraint::Regex(text.into()));
    assert!(regex("(a").contains("unclosed group"));
    assert!(regex(r"\bword\b").contains("word boundaries"));
    assert!(regex("(?=a)").contains("look-around"));
    assert!(regex(r"(a)\1").contains("backreferences"));
    assert!(regex("[a&&b]").contains("escape"));
    assert!(regex("[^\0-\u{10ffff}]").contains("matches no text"));
    assert!(refusal(Constraint::Choices(Vec::new())).contains("matches no text"));
}

#[test]
fn integers_keep_their_bounds() {
    for (low, high) in [(0, 0), (-5, 7), (3, 1204), (-1204, -99), (-100, 1000), (7, 9), (99, 101), (-10, 0)] {
        for (factor, exclusive) in [(1, false), (7, false), (1, true)] {
            let (least, most) =
                if exclusive { ("exclusiveMinimum", "exclusiveMaximum") } else { ("minimum", "maximum") };
            let inside =
                |n: i64| n % factor == 0 && if exclusive { low < n && n < high } else { low <= n && n <= high };
            let value = json!({"type": "integer", least: low, most: high, "multipleOf": factor});
            match compile(Constraint::JsonSchema(value)) {
                Ok(compiled) => {
                    for n in -1300..1300i64 {
                        assert_eq!(compiled.matches(n.to_string().as_bytes()), inside(n), "{n} in {low} to {high}");
                    }
                    check(&compiled, &[], &["01", "-0", "+1", "1.0", "1e1", ""]);
                }
                Err(_) => assert!(!(-1300..1300).any(inside)),
            }
        }
    }
    let unbounded = schema(json!({"type": "integer", "minimum": 98}));
    check(&unbounded, &["98", "99", "100", "123456789012345678901"], &["97", "9", "-98", "0"]);
    check(&schema(json!({"type": "integer", "maximum": -1.5})), &["-2", "-30"], &["-1", "0", "1"]);
}

#[test]
fn decimals_keep_their_bounds() {
    for (low, high) in [(0.0, 1.0), (-0.25, 0.5), (1.5, 1.75), (-12.125, -3.0), (9.5, 110.25), (0.1, 0.3)] {
        for exclusive in [false, true] {
            let (least, most) =
                if exclusive { ("exclusiveMinimum", "exclusiveMaximum") } else { ("minimum", "maximum") };
            let compiled = schema(json!({"type": "number", least: low, most: high}));
            for thousandth in -13_000..120_000i64 {
                let sign = if thousandth < 0 { "-" } else { "" };
                let (whole, rest) = (thousandth.abs() / 1000, thousandth.abs() % 1000);
                let text = format!("{sign}{whole}.{rest:03}");
                let value: f64 = text.parse().expect("a number");
                let inside = if exclusive { low < value && value < high } else { low <= value && value <= high };
                assert_eq!(compiled.matches(text.as_bytes()), inside, "{text} in {low} to {high}");
                let short = text.trim_end_matches('0').trim_end_matches('.');
                assert_eq!(compiled.matches(short.as_bytes()), inside, "{short} in {low} to {high}");
            }
        }
    }
    // Digits that only differ beyond the precision of a float do not slip through.
    let below = schema(json!({"type": "number", "exclusiveMaximum": 1e15, "minimum": 9e14}));
    check(&below, &["999999999999999.5"], &["999999999999999.99999999", "1000000000000000"]);
    check(
        &schema(json!({"type": "number"})),
        &["0", "-1.50", "2E-7", "1e+20"],
        &["01", ".5", "1.", "1e", "--1", "NaN"],
    );
}

#[test]
fn objects_have_their_properties_in_order() {
    let compiled = schema(json!({"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}}, "required": ["b"]}));
    let accepted =
        [r#"{"b":true}"#, r#"{"a": 1, "b": false}"#, r#"{"a":1,"b":true, "c":null}"#, r#"{"b":true,"c":null}"#];
    let others = [
        r#"{}"#,
        r#"{"a":1}"#,
        r#"{"c":null,"b":true}"#,
        r#"{"b":true,}"#,
        r#"{,"b":true}"#,
        r#"{"b":  true}"#,
        r#"{"b":true,"d":1}"#,
        r#"{"a":1"b":true}"#,
    ];
    check(&compiled, &accepted, &others);
    let compact = Options { spacing: Spacing::Compact, ..Options::default() };
    let value = json!({"type": "object", "properties": {"a": {"const": [1, {"k": "v"}]}}});
    let compiled = Constraint::JsonSchema(value).compile(&bytes(), &compact).expect("compiles");
    check(&compiled, &["{}", r#"{"a":[1,{"k":"v"}]}"#], &[r#"{"a": [1,{"k":"v"}]}"#, r#"{"a":[1, {"k":"v"}]}"#]);
}

#[test]
fn further_properties_come_where_they_are_asked_for() {
    let compiled =
        schema(json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}));
    let accepted = ["{}", r#"{"a":1}"#, r#"{"a":1,"b":"x"}"#, r#"{"aa":"x","é":"y"}"#, r#"{"":""}"#];
    // The property that is described cannot come back as another, not even in disguise.
    check(&compiled, &accepted, &[r#"{"b":1}"#, r#"{"a":"x"}"#, r#"{"b":"x","a":"y"}"#, r#"{"\u0061":"x"}"#]);
    let compiled =
        schema(json!({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": true}));
    check(&compiled, &[r#"{"ab":[1,{}]}"#], &[r#"{"aB":1}"#, r#"{"":1}"#]);
    let compiled = schema(json!({"type": "object", "propertyNames": {"enum": ["a", "b\""]}}));
    check(&compiled, &["{}", r#"{"b\"":1,"a":2}"#], &[r#"{"c":1}"#]);
    let compiled = schema(json!({"type": "object", "required": ["x"]}));
    check(&compiled, &[r#"{"x":[]}"#], &["{}", r#"{"y":1}"#]);
}

#[test]
fn arrays_keep_their_counts() {
    let digits = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    for (least, most) in [(0, Some(0)), (0, Some(1)), (2, Some(4)), (0, None), (1, None), (3, None)] {
        let mut value = json!({"type": "array", "items": {"type": "integer"}, "minItems": least});
        most.iter().for_each(|most| value["maxItems"] = json!(most));
        let compiled = schema(value);
        for count in 0..8 {
            let inside = count >= least && most.is_none_or(|most| count <= most);
            assert_eq!(compiled.matches(digits(count).as_bytes()), inside, "{count} in {least} to {most:?}");
        }
        check(&compiled, &[], &["[1,]", "[,1]", "[1 ,1]", "[true]", "["]);
    }
    let pair = schema(json!({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "null"}}));
    check(&pair, &["[]", r#"["a"]"#, r#"["a",1]"#, r#"["a",1,null, null]"#], &["[1]", r#"["a",null]"#]);
}

#[test]
fn strings_keep_length_pattern_and_format() {
    let compiled = schema(json!({"type": "string", "minLength": 2, "maxLength": 3}));
    check(
        &compiled,
        &[r#""ab""#, r#""äöü""#, r#""\n\"""#, r#""🙂🙂""#],
        &[r#""a""#, r#""abcd""#, r#""a"b""#, "\"a\nb\""],
    );
    let compiled = schema(json!({"type": "string", "pattern": "b+$", "maxLength": 3}));
    check(&compiled, &[r#""b""#, r#""abb""#, r#""\\b""#], &[r#""ba""#, r#""aabb""#, r#""""#]);
    let compiled = schema(json!({"type": "string", "format": "date"}));
    check(&compiled, &[r#""2024-02-28""#, r#""1999-12-31""#], &[r#""2024-02-30""#, r#""2024-13-01""#, r#""24-01-01""#]);
    let compiled = schema(json!({"type": "string", "format": "hostname"}));
    check(&compiled, &[r#""a-b.example""#, r#""x""#], &[r#""xn--a""#, r#""-a""#, r#""a..b""#, r#""""#]);
    let compiled = schema(json!({"type": "string", "format": "a house's own"}));
    check(&compiled, &[r#""x""#], &["1"]);
    let free = schema(json!({"type": "string"}));
    check(&free, &[r#""""#, r#""\u00e9\/\b""#, "\"\u{7f}é\""], &[r#""\x""#, "\"\t\"", r#""\ud800""#, r#"""""#]);
}

#[test]
fn references_are_followed_as_deep_as_states_allow() {
    let tree = json!({"$ref": "#/$defs/tree%20x", "$defs": {"tree x": {"type": "object", "properties": {
        "kids": {"type": "array", "items": {"$ref": "#/$defs/tree%20x"}}}, "required": ["kids"]}}});
    let compiled = schema(tree.clone());
    let nested = |depth: usize| format!("{}{}", r#"{"kids":["#.repeat(depth), "]}".repeat(depth));
    // Objects and arrays count, all but the outermost.
    let most = |depth: usize| depth.div_ceil(2);
    let depth = compiled.depth().expect("bounded");
    assert!(depth >= 16);
    check(&compiled, &[&nested(1), &nested(most(depth))], &[&nested(most(depth) + 1)]);
    let shallow = Options { depth: Some(3), ..Options::default() };
    let compiled = Constraint::JsonSchema(tree).compile(&bytes(), &shallow).expect("compiles");
    check(&compiled, &[&nested(2)], &[&nested(3)]);
}

#[test]
fn alternatives_of_one_of_are_told_apart() {
    let kind = |name: &str| json!({"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]});
    let compiled = schema(json!({"oneOf": [kind("a"), kind("b"), {"type": ["null", "integer"]}]}));
    check(&compiled, &[r#"{"kind":"a"}"#, r#"{"kind":"b"}"#, "null", "3"], &[r#"{"kind":"c"}"#, "{}"]);
    let refused = |parts: Value| refusal(Constraint::JsonSchema(json!({"oneOf": parts})));
    for parts in [
        json!([{"type": "integer"}, {"type": "number"}]),
        json!([{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]),
        json!([{"type": "string"}, {"enum": ["a", 1]}]),
        json!([{}, {"type": "null"}]),
    ] {
        assert!(refused(parts).contains("a value might meet both"));
    }
}

#[test]
fn schemas_that_cannot_be_kept_are_refused_where_they_are() {
    for (value, part) in [
        (json!({"type": "array", "uniqueItems": true}), "uniqueItems"),
        (json!({"properties": {"a": {"not": {}}}}), "#/properties/a: not is not supported"),
        (json!({"type": "number", "multipleOf": 0.01}), "multipleOf 0.01"),
        (json!({"$ref": "https://example.org/s.json"}), "does not point into this schema"),
        (json!({"$ref": "#/$defs/none"}), "points to nothing"),
        (json!({"$ref": "#"}), "matches no text"),
        (json!({"type": "strnig"}), "is not a type"),
        (json!({"propertyNames": {"const": "a"}}), "const is not supported in the names"),
        (json!({"type": "string", "format": "json-pointer"}), "format json-pointer"),
        (json!({"type": "string", "pattern": "("}), "unclosed group"),
        (json!({"type": "string", "minLength": 3, "maxLength": 2}), "maxLength"),
        (json!({"allOf": [{"type": "string"}, {"minLength": 2}]}), "allOf"),
        (json!({"type": "object", "minProperties": 2}), "minProperties"),
        (json!({"enum": [1], "minimum": 0}), "minimum beside enum"),
        (json!({"required": ["a"], "additionalProperties": false}), "\"a\" is required"),
        (json!(3), "a schema is an object"),
    ] {
        let sentence = refusal(Constraint::JsonSchema(value.clone()));
        assert!(sentence.contains(part), "{value}: {sentence}");
    }
}

#[test]
fn any_json_is_nested_as_deep_as_states_allow() {
    let object = compile(Constraint::JsonObject).expect("compiles");
    check(&object, &["{}", r#"{"a": [1, {"b": null}], "c": "\u0041"}"#], &["[]", "1", "{", r#"{"a"}"#, "{1:2}"]);
    assert!(object.depth().is_some_and(|depth| depth >= 4));
    // A large schema leaves room for it as well.
    let mut large = json!({"properties": {"free": {"type": "object"}}, "required": ["free"]});
    for at in 0..10 {
        large["properties"][format!("text{at}")] = json!({"type": "string", "maxLength": 40});
    }
    check(&schema(large), &[r#"{"free":{"a":[{}, 1]},"text3":"x"}"#], &[r#"{"text3":"x"}"#]);
    let value = compile(Constraint::JsonValue).expect("compiles");
    check(&value, &["[]", "-0.5", r#""x""#, "[[[[]]]]"], &["", "[1 2]", "tru"]);
}

#[test]
fn grammars_are_read_as_llama_cpp_reads_them() {
    let grammar = |text: &str| compile(Constraint::Grammar(text.into())).expect("compiles");
    let arithmetic = grammar(
        "# sums\nroot ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\n\
         term ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
    );
    check(&arithmetic, &["a+1=b\n", "(a*(b-2))= 3\nx=y\n"], &["a+1=b", "a+=b\n", "(a=b\n"]);
    let list = grammar("root ::= item | item \",\"\n  root\nitem ::= \"x\"{2,3} | [^x,]");
    assert_eq!(list.depth(), None);
    check(&list, &["xx", "xxx,é", &["xx"; 100].join(",")], &["x", "xxxx", ",", "xx,"]);
    let pairs = grammar(r#"root ::= "" | "a" root "b""#);
    let depth = pairs.depth().expect("bounded");
    let text = |n: usize| format!("{}{}", "a".repeat(n), "b".repeat(n));
    check(&pairs, &["", "ab", &text(depth)], &["a", "ba", "abb", &text(depth + 1)]);
    check(&grammar(r#"root ::= root "x" | "y""#), &["y", "yxx"], &["x", ""]);
    check(&grammar(r#"root ::= "\x41\u00e9\"" . [\]^-]"#), &["Aé\"🙂]", "Aé\"a-"], &["Aé\"a"]);
}

#[test]
fn grammars_with_mistakes_are_refused_with_their_line() {
    for (text, part) in [
        ("", "no rule called root"),
        ("root ::= other", "does not define it"),
        ("root ::= \"a\nroot", "does not end"),
        ("root ::= \"a\"\nx ::= (\"b\"", "line 2 of the grammar: a ) is missing"),
        ("root ::= \"a\"\nroot ::= \"b\"", "defined twice"),
        ("root ::= [b-a]", "backwards"),
        ("root ::= \"a\"{3,2}", "a count was expected"),
        ("root ::= <think>", "tokens by name"),
        ("root ::= \"a\" }", "was expected"),
        ("root ::= root", "matches no text"),
    ] {
        let sentence = refusal(Constraint::Grammar(text.into()));
        assert!(sentence.contains(part), "{text:?}: {sentence}");
    }
}
