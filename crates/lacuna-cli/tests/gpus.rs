//! Several GPUs: a replica on each, and the answers of one. Without two GPUs, real or emulated, only refusals are tested.

#![allow(clippy::print_stderr, reason = "a test that skips says why")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use common::{complaint, data, lacuna, lacuna_with, objects};
use serde_json::Value;

/// True if there are several GPUs; says that there are not.
fn several_gpus() -> bool {
    let tiny = data("llada-tiny").display().to_string();
    let facts = objects(lacuna(&["inspect", "--model", &tiny, "--device", "cpu", "--format", "json"])).remove(0);
    let several = facts["gpu"].as_str().unwrap().contains("; the first of ");
    if !several {
        eprintln!("skipped: there are not two GPUs ({})", facts["gpu"]);
    }
    several
}

fn untimed(mut records: Vec<Value>) -> Vec<Value> {
    for record in &mut records {
        let record = record.as_object_mut().unwrap();
        record.retain(|name, _| !["seconds", "tokens_per_second", "seconds_per_sample"].contains(&name.as_str()));
    }
    records
}

#[test]
fn answers_on_several_gpus_are_those_of_one_in_the_order_of_the_prompts() {
    if !several_gpus() {
        return;
    }
    let tiny = data("llada-tiny").display().to_string();
    let prompts: String = (0..7).map(|id| format!("{{\"id\": {id}, \"prompt_tokens\": [{}, 2]}}\n", id + 3)).collect();
    for strategy in ["dos+eb", "klass"] {
        let run = |device: &str, batch: &str| {
            let arguments = ["generate", "--model", &tiny, "--jsonl", "-", "--format", "json", "--gen-length", "12"];
            let chosen = ["--strategy", strategy, "--device", device, "--batch", batch];
            untimed(objects(lacuna_with(&[&arguments[..], &chosen].concat(), &prompts)))
        };
        let one = run("cuda:0", "1");
        assert_eq!(one.iter().map(|record| record["id"].as_u64().unwrap()).collect::<Vec<_>>(), Vec::from_iter(0..7));
        assert_eq!(run("cuda:1", "2"), one);
        assert_eq!(run("cuda:1,0", "2"), one);
        assert_eq!(run("cuda:all", "1"), one);
    }
}

#[test]
fn an_evaluation_on_several_gpus_is_that_of_one() {
    if !several_gpus() {
        return;
    }
    let run = |device: &str| {
        let out = tempfile::tempdir().unwrap();
        let place = out.path().display().to_string();
        let arguments = ["eval", "words", "--strategy", "dos+top4", "--limit", "3", "--gen-length", "16"];
        let rest = ["--device", device, "--batch", "1", "--out", &place, "--format", "json"];
        let printed = objects(lacuna(&[&arguments[..], &rest].concat())).remove(0);
        untimed(printed.as_array().unwrap().clone())
    };
    assert_eq!(run("cuda:all"), run("cuda:0"));
}

#[test]
fn a_server_on_several_gpus_answers_as_one() {
    if !several_gpus() {
        return;
    }
    let ask = |address: &str| {
        let body = r#"{"prompt": "What is 3 + 4?", "max_tokens": 8, "strategy": "dos+top4", "model": "lacuna-mini"}"#;
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        answer["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string()
    };
    let serve = |device: &str| {
        let mut server = Command::new(env!("CARGO_BIN_EXE_lacuna"))
            .args(["serve", "--port", "0", "--device", device])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_string();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn({
                    let address = address.clone();
                    move || ask(&address)
                })
            })
            .collect();
        let texts: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        server.kill().unwrap();
        server.wait().unwrap();
        (line, texts)
    };
    let ((_, one), (line, several)) = (serve("cuda:0"), serve("cuda:0,1"));
    assert!(line.contains("(2 times cuda, "), "{line}");
    assert_eq!(one, several);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let generate = |device: &str| complaint(lacuna(&["generate", "--device", device, "x"]));
    let unknown = "use auto, cpu, cuda, a GPU such as cuda:1, several such as cuda:0,1, or cuda:all";
    for device in ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0,,1"] {
        let line = generate(device);
        assert!(line.contains(&format!("there is no device '{device}': {unknown}")), "{line}");
    }
    assert!(generate("cuda:0,1,0").contains("names GPU 0 twice: name each once"));
    let line = complaint(lacuna(&["probe", "--tokens", "1,2", "--device", "cuda:0,1"]));
    assert_eq!(line, "error: cuda:0,1 names several GPUs, but this computes on one: use cuda:0");
    assert!(generate("cuda:99").starts_with("error: no usable GPU: "));
}
