//! Random JSON schemas.

use serde_json::{Map, Value, json};

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A schema with definitions, some of which call themselves.
pub(crate) fn schema(random: &mut Random) -> Value {
    let mut schema = value(random, 3);
    if random.one_in(3) {
        schema = object(random, 2);
    }
    let tree = json!({"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 4},
        "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
        "required": ["name"], "additionalProperties": false});
    schema["$defs"] = json!({"small": {"type": "integer", "minimum": -3, "maximum": 12}, "tree": tree});
    schema
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 8 } else { 13 }) {
        0 | 1 => string(random),
        2 | 3 => number(random),
        4 => json!({"type": "boolean", "description": "yes or no"}),
        5 => constant(random),
        6 => json!({"$ref": "#/$defs/small", "title": "a small number"}),
        7 => json!({"type": random.pick(&[json!("null"), json!(["null", "integer"]), json!(["string", "boolean"])])}),
        8 | 9 => object(random, depth - 1),
        10 => array(random, depth - 1),
        11 => alternatives(random, depth - 1),
        _ => random.pick(&[
            json!({"$ref": "#/$defs/tree"}),
            json!({}),
            json!({"type": "object"}),
            json!({"type": "array"}),
        ]),
    }
}

fn string(random: &mut Random) -> Value {
    let mut schema = json!({"type": "string"});
    match random.below(5) {
        0 => {
            let least = random.below(6);
            schema["minLength"] = json!(least);
            if random.one_in(2) {
                schema["maxLength"] = json!(least + random.below(12));
            }
        }
        1 => {
            let patterns = [
                r"^[a-z]+$",
                r"^\d{3}-\d{4}$",
                "a",
                "^(red|green|blue)$",
                r"^[^\d]{2,5}$",
                r"\S$",
                "^.{1,6}$",
                r#"^["\\/]{1,3}$"#,
                "é|[α-ω]+",
                r"^\w+ \w+$",
                "^$|^x",
                r"^[A-Z]{2}\W?[0-9]*$",
                r"^[^\s]+\s[^\w]$",
            ];
            schema["pattern"] = json!(random.pick(&patterns));
            if random.one_in(3) {
                schema["maxLength"] = json!(8 + random.below(10));
            }
        }
        2 => {
            let formats = ["date", "time", "date-time", "email", "uuid", "ipv4", "ipv6", "uri", "hostname", "duration"];
            schema["format"] = json!(random.pick(&formats));
        }
        _ => {}
    }
    schema
}

fn number(random: &mut Random) -> Value {
    let integer = random.one_in(2);
    let mut schema = json!({"type": if integer { "integer" } else { "number" }});
    let scale = random.pick(&[1.0, 0.5, 0.01, 37.0, 1000.25]);
    let low = (random.below(400) as f64 - 200.0) * scale;
    let bound = |value: f64| if value.fract() == 0.0 { json!(value as i64) } else { json!(value) };
    match random.below(5) {
        0 => {}
        1 => schema[random.pick(&["minimum", "exclusiveMinimum"])] = bound(low),
        2 => schema[random.pick(&["maximum", "exclusiveMaximum"])] = bound(low),
        _ => {
            schema[random.pick(&["minimum", "exclusiveMinimum"])] = bound(low);
            schema[random.pick(&["maximum", "exclusiveMaximum"])] =
                bound(low + 3.0 + random.below(5000) as f64 * scale);
        }
    }
    if integer && random.one_in(4) {
        schema["multipleOf"] = json!(random.pick(&[1, 2, 3]));
    }
    schema
}

fn constant(random: &mut Random) -> Value {
    let values = [
        json!("a b"),
        json!("\"q\"\n"),
        json!(3),
        json!(-2.5),
        json!(null),
        json!(true),
        json!([1, "x"]),
        json!({"k": []}),
    ];
    if random.one_in(3) {
        json!({"const": random.pick(&values)})
    } else {
        let first = random.below(values.len() - 3);
        json!({"enum": values[first..first + 3]})
    }
}

fn name(random: &mut Random, at: usize) -> String {
    let names = ["name", "id", "first name", "größe", "a\"b", "x", "tags", "is_open", "price", "na"];
    format!("{}{}", random.pick(&names), if random.one_in(2) { at.to_string() } else { "_".repeat(at) })
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for at in 0..random.below(6) {
        let name = name(random, at);
        if random.one_in(2) {
            required.push(name.clone());
        }
        properties.insert(name, value(random, depth));
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() || random.one_in(2) {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() || random.one_in(4) {
        schema["required"] = json!(required);
    }
    match random.below(4) {
        0 => schema["additionalProperties"] = json!(false),
        1 => schema["additionalProperties"] = value(random, 0),
        _ => {}
    }
    schema
}

fn array(random: &mut Random, depth: usize) -> Value {
    let mut schema = json!({"type": "array"});
    let least = random.below(3);
    if random.one_in(4) {
        schema["prefixItems"] = (0..=least).map(|_| value(random, depth)).collect();
        schema["items"] = random.pick(&[json!(false), json!({"type": "integer"})]);
    } else {
        schema["items"] = value(random, depth);
    }
    if random.one_in(2) {
        schema["minItems"] = json!(least);
    }
    if random.one_in(2) {
        schema["maxItems"] = json!(least + random.below(4));
    }
    schema
}

fn alternatives(random: &mut Random, depth: usize) -> Value {
    match random.below(3) {
        0 => json!({"anyOf": [value(random, depth), value(random, depth)]}),
        1 => json!({"oneOf": [string(random), number(random), {"type": "null"}]}),
        _ => {
            let kind = |kind: &str, inner: Value| json!({"type": "object", "properties": {"kind": {"const": kind}, "value": inner}, "required": ["kind"]});
            json!({"oneOf": [kind("one", value(random, 0)), kind("two", value(random, 0))]})
        }
    }
}
