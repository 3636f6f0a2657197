//! The real server: started, asked, stopped, killed and started again.

#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::{complaint, lacuna, lacuna_with, stdout};
use serde_json::{Value, json};

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_lacuna")).arg("serve"), flags, variables)
    }

    /// Starts it with at most so many open files.
    fn start_with_files(most: usize, flags: &[&str]) -> Self {
        let limited = format!("ulimit -n {most}; exec \"$0\" serve \"$@\"");
        Self::start_as(Command::new("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_lacuna")]), flags, &[])
    }

    fn start_as(command: &mut Command, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = command
            .args(flags)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("no address in '{line}'")).to_string();
        Self { child, address }
    }

    /// Sends a request of the kind that has one connection and no chunks, and returns the open connection.
    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        self.send_with("authorization: Bearer secret", method, path, body)
    }

    fn send_with(&self, header: &str, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\n{header}\r\n");
        let kind = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        write!(stream, "{head}{kind}{body}").unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        read(self.send(method, path, &body.to_string()))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not end");
    }

    fn log(&mut self) -> String {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body.
fn read(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: '{text}'"));
    (head[9..12].parse().unwrap(), body.to_string())
}

fn long() -> Value {
    json!({"prompt": "def add(a, b):", "gen_length": 96, "strategy": "dos", "early_stop": false})
}

#[test]
fn it_starts_serves_and_ends_when_asked() {
    let mut server = Server::start(&["--port", "0", "--log-format", "json"], &[]);
    assert_eq!(server.ask("GET", "/health", &json!({})).0, 200);
    let body = json!({"prompt": "def add(a, b):", "max_tokens": 8}).to_string();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = format!("x-request-id: client-7\r\ntraceparent: {trace}");
    let (status, body) = read(server.send_with(&headers, "POST", "/v1/completions", &body));
    assert_eq!(status, 200, "{body}");
    server.signal("TERM");
    assert!(server.wait().success());
    let log = server.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own: Vec<&Value> = lines.iter().filter(|line| line["request_id"] == "client-7").collect();
    let said: Vec<&str> = own.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert!(said.contains(&"answered") && said.contains(&"request") && said.len() == 2, "{log}");
    assert!(own.iter().all(|line| line["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"), "{log}");
    assert!(lines.iter().any(|line| line["path"] == "/v1/completions" && line["status"] == 200), "{log}");
    assert!(!log.contains("def add"), "prompts are not logged");
}

#[test]
fn clients_that_never_complete_their_request_do_not_keep_it() {
    let mut server = Server::start(&["--port", "0", "--log-level", "off"], &[]);
    let silent = TcpStream::connect(&server.address).unwrap();
    let mut slow = TcpStream::connect(&server.address).unwrap();
    write!(
        slow,
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{{"
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    server.signal("TERM");
    let begun = Instant::now();
    assert!(server.wait().success());
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop((silent, slow));
}

#[test]
fn the_record_of_watched_steps_can_be_replayed() {
    let server = Server::start(&["--port", "0", "--log-level", "off"], &[]);
    let message = json!({"role": "user", "content": "Sara has 24 pens and gives 9 away. How many are left?"});
    let body = json!({"messages": [message], "gen_length": 48, "strategy": "wino"});
    let (status, events) = server.ask("POST", "/v1/steps", &body);
    assert_eq!(status, 200);
    let done = events.split("event: done\ndata: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let text = serde_json::from_str::<Value>(done).unwrap()["text"].as_str().unwrap().to_string();
    assert_eq!(stdout(lacuna_with(&["replay", "-"], done)).trim_end(), text.trim_end());
}

#[test]
fn it_finishes_what_it_took_on_but_not_after_a_second_signal() {
    let mut server = Server::start(&["--port", "0", "--log-level", "off"], &[]);
    let open = server.send("POST", "/v1/completions", &long().to_string());
    std::thread::sleep(Duration::from_millis(200));
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    let (status, body) = server.ask("POST", "/v1/completions", &long());
    assert_eq!(status, 503, "{body}");
    assert_eq!(server.ask("GET", "/ready", &json!({})).0, 503);
    assert_eq!(read(open).0, 200);
    assert!(server.wait().success());

    let mut server = Server::start(&["--port", "0", "--log-level", "off"], &[]);
    let _open = server.send(
        "POST",
        "/v1/completions",
        &json!({"prompt": "x", "gen_length": 1000, "strategy": "dos",
        "early_stop": false})
        .to_string(),
    );
    std::thread::sleep(Duration::from_millis(200));
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(100));
    server.signal("INT");
    let begun = Instant::now();
    assert_eq!(server.wait().code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(server.log().contains("stopped at once"));
}

#[test]
fn it_can_be_killed_and_started_again_on_the_same_port() {
    let mut server = Server::start(&["--port", "0", "--log-level", "off"], &[]);
    let answer = |server: &Server| {
        let (status, body) =
            server.ask("POST", "/v1/completions", &json!({"prompt": "def add(a, b):", "max_tokens": 16}));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["choices"].clone()
    };
    let before = answer(&server);
    let _open = server.send("POST", "/v1/completions", &long().to_string());
    server.signal("KILL");
    server.wait();
    let port = server.address.rsplit(':').next().unwrap().to_string();
    let server = Server::start(&["--port", &port, "--log-level", "off"], &[]);
    assert_eq!(answer(&server), before);
}

#[test]
fn flags_go_before_variables_and_they_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lacuna.toml");
    let settings =
        "port = 1\nmodel_name = \"from-file\"\nmax_gen_length = 10\nlog_level = \"off\"\napi_keys = [\"secret\"]\n";
    std::fs::write(&file, settings).unwrap();
    let variables =
        [("LACUNA_PORT", "0"), ("LACUNA_CONFIG", file.to_str().unwrap()), ("LACUNA_MODEL_NAME", "from-env")];
    let server = Server::start(&["--max-gen-length", "20"], &variables);
    assert!(server.ask("GET", "/v1/models", &json!({})).1.contains("from-env"));
    let status = |length: usize| {
        server
            .ask("POST", "/v1/completions", &json!({"prompt": "x", "max_tokens": length, "strategy": "random+top20"}))
            .0
    };
    assert_eq!((status(20), status(21)), (200, 400));
    let other = Server::start(&["--port", "0", "--log-level", "off"], &[("LACUNA_API_KEYS", "another,key")]);
    assert_eq!(other.ask("GET", "/v1/models", &json!({})).0, 401);
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let server = Server::start_with_files(128, &["--port", "0", "--log-level", "off"]);
    let silent: Vec<TcpStream> = (0..246).filter_map(|_| TcpStream::connect(&server.address).ok()).collect();
    assert!(silent.len() > 128, "only {} could be opened", silent.len());
    for _ in 0..3 {
        assert_eq!(server.ask("GET", "/health", &json!({})).0, 200);
    }
    // A request that is being answered keeps its connection, however many come after it.
    let open = server.send("POST", "/v1/completions", &long().to_string());
    std::thread::sleep(Duration::from_millis(300));
    let more: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(&server.address).ok()).collect();
    assert_eq!(read(open).0, 200);
    drop((silent, more));
}

#[test]
fn keys_are_read_again_on_sighup_and_bad_ones_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.txt");
    std::fs::write(&file, "# who may ask\nk-first name=alice\n").unwrap();
    let flags = ["--port", "0", "--log-format", "json", "--api-key-file", file.to_str().unwrap()];
    let mut server = Server::start(&flags, &[]);
    let status = |server: &Server, key: &str| {
        read(server.send_with(&format!("authorization: bearer {key}"), "GET", "/v1/models", "")).0
    };
    let until = |server: &Server, key: &str, wanted: u16| {
        let begun = Instant::now();
        while status(server, key) != wanted {
            assert!(begun.elapsed() < Duration::from_secs(30), "{key} does not get {wanted}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!((status(&server, "k-first"), status(&server, "k-second")), (200, 401));
    std::fs::write(&file, "k-second name=bob\n").unwrap();
    server.signal("HUP");
    until(&server, "k-second", 200);
    assert_eq!(status(&server, "k-first"), 401);
    for broken in ["", "two words\n", "x concurrent=none\n"] {
        std::fs::write(&file, broken).unwrap();
        server.signal("HUP");
    }
    std::fs::write(&file, "k-third name=carol\nk-second\n").unwrap();
    server.signal("HUP");
    until(&server, "k-third", 200);
    assert_eq!(status(&server, "k-second"), 200);
    server.signal("TERM");
    assert!(server.wait().success());
    let log = server.log();
    assert!(log.contains("\"key\":\"alice\"") && log.contains("\"key\":\"bob\""), "{log}");
    assert!(
        !["k-first", "k-second", "k-third", "two words"].iter().any(|key| log.contains(key)),
        "keys are not logged: {log}"
    );
}

#[test]
fn a_hostile_template_costs_only_its_own_requests() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in lacuna_mini::FILES {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let template = "{% if messages[0].content == 'loop' %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}\
                    {% endfor %}{% elif messages[0].content == 'grow' %}{% set ns = namespace(s='x') %}{% for i in range(60) %}\
                    {% set ns.s = ns.s ~ ns.s %}{% endfor %}{% else %}{{ messages[0].content }}{% endif %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let model = folder.path().to_str().unwrap();
    let server = Server::start(&["--port", "0", "--log-level", "off", "--model", model], &[]);
    let chat = |content: &str| {
        let body = json!({"messages": [{"role": "user", "content": content}], "max_tokens": 8});
        server.ask("POST", "/v1/chat/completions", &body)
    };
    for hostile in ["loop", "grow", "loop", "grow", "loop", "grow"] {
        let (status, body) = chat(hostile);
        assert_eq!(status, 400, "{body}");
        assert!(body.contains("chat_template.jinja"), "{body}");
    }
    assert_eq!(chat("hello").0, 200);
}

#[test]
fn an_open_address_and_foreign_variables_are_warned_of() {
    let flags = ["--port", "0", "--host", "0.0.0.0", "--log-format", "json"];
    let mut server = Server::start(&flags, &[("LACUNA_SERVICE_HOST", "10.0.0.1")]);
    server.signal("TERM");
    assert!(server.wait().success());
    let log = server.log();
    assert!(log.contains("open to everybody") && log.contains("LACUNA_SERVICE_HOST is set"), "{log}");
    let mut server = Server::start(&["--port", "0", "--host", "localhost", "--log-format", "json"], &[]);
    assert!(server.address.starts_with("127.0.0.1:") || server.address.starts_with("[::1]:"), "{}", server.address);
    assert_eq!(server.ask("GET", "/version", &json!({})).0, 200);
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(!server.log().contains("open to everybody"));
    let misspelt = Command::new(env!("CARGO_BIN_EXE_lacuna")).arg("serve").env("LACUNA_API_KEY", "secret").output();
    let said = complaint(misspelt.unwrap());
    assert!(said.contains("LACUNA_API_KEY is set") && said.contains("did you mean LACUNA_API_KEYS?"), "{said}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    };
    let unknown = path("unknown.toml", "prot = 3\n");
    let broken = path("broken.toml", "port = \n");
    let (empty, spaced) = (path("empty.txt", "\n"), path("spaced.txt", "two words\n"));
    for (flags, word) in [
        (vec!["--port", &port], "cannot listen on 127.0.0.1:"),
        (vec!["--config", "no-such-file.toml"], "no-such-file.toml"),
        (vec!["--config", &unknown], "unknown field `prot`"),
        (vec!["--config", &broken], "broken.toml is not a configuration file"),
        (vec!["--api-key-file", &empty], "holds no API key"),
        (vec!["--api-key-file", &spaced], "may follow a key"),
        (vec!["--threads", "65536"], "256 or less"),
        (vec!["--host", "no such host"], "neither an address nor a name"),
        (vec!["--model-name", "two\nlines"], "without control characters"),
        (vec!["--model", "no-such-model"], "no-such-model is neither a directory nor"),
        (vec!["--max-batch", "0"], "max_batch is 0"),
        (vec!["--cors-origin", "example.org", "--port", "0"], "is not an origin"),
    ] {
        let said = complaint(lacuna(&[&["serve"], &flags[..]].concat()));
        assert!(said.starts_with("error: ") && said.contains(word), "{flags:?}: {said}");
        assert!(!said.contains("two words"), "keys are not shown");
    }
}
