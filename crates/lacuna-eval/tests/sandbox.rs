//! Programs that try to break out of the sandbox, with every layer and with each one alone.

use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lacuna_eval::sandbox::{Layer, Limits, Outcome, Sandbox};

fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let limits = Limits { wall: Duration::from_secs(10), ..Limits::default() };
        Sandbox::detect(limits, false).expect("this machine can confine programs")
    })
}

fn quick() -> Sandbox {
    sandbox().with_limits(Limits { wall: Duration::from_secs(1), ..Limits::default() })
}

/// Sandboxes of single layers: bubblewrap covers Landlock and namespaces, so these are only tried without it.
fn alone() -> Vec<Sandbox> {
    let all = sandbox();
    let sets = [vec![Layer::Seccomp, Layer::Landlock, Layer::Namespaces], vec![Layer::Seccomp, Layer::Landlock]];
    std::iter::once(all.with_layers(&Layer::KERNEL)).chain(sets.map(|set| all.with_layers(&set))).collect()
}

fn run(program: &str) -> Outcome {
    sandbox().run(program).unwrap()
}

#[test]
fn a_program_that_ends_well_passes() {
    let outcome = run("import math, re, collections, dataclasses\nassert math.comb(5, 2) == 10\nprint('hello')");
    assert!(outcome.passed, "{}", outcome.reason);
}

#[test]
fn a_failing_program_says_where_it_failed() {
    let outcome = run("def f(x):\n    return x + 1\n\nassert f(1) == 2\nassert f(2) == 4, 'off by one'\n");
    assert!(!outcome.passed);
    assert_eq!(outcome.reason, "AssertionError: off by one at: assert f(2) == 4, 'off by one'");
    assert!(run("def f(:").reason.starts_with("SyntaxError"));
    assert!(run("import nothing_of_that_name").reason.starts_with("ModuleNotFoundError"));
}

#[test]
fn ending_early_is_not_passing() {
    for program in [
        "import sys; sys.exit(0)",
        "exit()",
        "import os; os._exit(0)",
        "raise SystemExit",
        "print('passed')",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.stdout.close(); raise ValueError",
    ] {
        let outcome = run(&format!("{program}\nassert False\n"));
        assert!(!outcome.passed, "{program}: {}", outcome.reason);
    }
    let bomb = "class Nasty(Exception):\n    def __str__(self):\n        raise self\nraise Nasty()";
    assert!(!run(bomb).passed);
}

#[test]
fn names_and_main_are_as_in_an_imported_module() {
    assert!(run("if __name__ == '__main__':\n    raise ValueError\n").passed);
    assert!(run("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nassert P(1) == P(1)").passed);
    assert!(
        run(
            "assert hash('lacuna') == hash('lacuna')\ninput_works = True\ntry:\n    input()\nexcept EOFError:\n    pass"
        )
        .passed
    );
    assert!(run("assert 'é' == '\\u00e9'\nprint('é')").passed);
}

#[test]
fn endless_programs_are_stopped() {
    for program in [
        "while True: pass",
        "import time\ntime.sleep(1000)",
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
         while True:\n    try:\n        time.sleep(100)\n    except BaseException:\n        pass",
    ] {
        let begun = Instant::now();
        let outcome = quick().run(program).unwrap();
        assert!(!outcome.passed && begun.elapsed() < Duration::from_secs(8), "{program}: {}", outcome.reason);
    }
}

#[test]
fn a_memory_bomb_hits_the_limit() {
    let outcome = run("x = []\nwhile True:\n    x.append(bytearray(64 * 1024 * 1024))");
    assert!(outcome.reason.starts_with("MemoryError"), "{}", outcome.reason);
}

#[test]
fn endless_output_is_cut() {
    let begun = Instant::now();
    let outcome = run("while True:\n    print('x' * 10000)");
    assert!(!outcome.passed && begun.elapsed() < Duration::from_secs(9), "{}", outcome.reason);
    let outcome = run("import sys\nwhile True:\n    sys.stderr.write('x' * 10000)");
    assert!(!outcome.passed, "{}", outcome.reason);
}

#[test]
fn a_fork_bomb_does_not_get_going() {
    for sandbox in alone() {
        let outcome = sandbox.run("import os\nwhile True:\n    os.fork()").unwrap();
        assert!(outcome.reason.contains("PermissionError"), "{}: {}", sandbox.layers(), outcome.reason);
        let outcome = sandbox.run("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'true'], check=True)").unwrap();
        assert!(!outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
        assert!(
            sandbox.run("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()").unwrap().passed
        );
    }
}

#[test]
fn nothing_outside_the_folder_is_written_or_deleted() {
    let home = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let precious = home.path().join("precious");
    std::fs::write(&precious, "data").unwrap();
    let own_home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let planted = [own_home, std::env::temp_dir()].map(|folder| folder.join("lacuna-planted"));
    for sandbox in alone() {
        let program = format!(
            "import os, shutil\n\
             open('mine', 'w').write('fine')\n\
             assert open('mine').read() == 'fine'\n\
             def attempts():\n    \
                 yield lambda: open({0:?}, 'w').write('gone')\n    \
                 yield lambda: os.remove({0:?})\n    \
                 yield lambda: os.rename({0:?}, 'mine')\n    \
                 yield lambda: os.symlink({0:?}, 'link') or open('link', 'w').write('gone')\n    \
                 yield lambda: os.chmod({0:?}, 0)\n    \
                 yield lambda: shutil.rmtree({1:?})\n    \
                 yield lambda: open(os.path.expanduser('~/planted'), 'w')\n    \
                 yield lambda: open({2:?}, 'w')\n    \
                 yield lambda: open({3:?}, 'w')\n    \
                 yield lambda: os.mkdir({1:?} + '/planted')\n\
             for number, attempt in enumerate(attempts()):\n    \
                 try:\n        attempt()\n    \
                 except OSError:\n        continue\n    \
                 raise SystemError(number)\n",
            precious.to_str().unwrap(),
            home.path().to_str().unwrap(),
            planted[0].to_str().unwrap(),
            planted[1].to_str().unwrap(),
        );
        let outcome = sandbox.run(&program).unwrap();
        assert!(outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
        assert_eq!(std::fs::metadata(&precious).unwrap().len(), 4, "{}", sandbox.layers());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
    assert!(planted.iter().all(|file| !file.exists()));
}

#[test]
fn the_folder_is_fresh_and_removed() {
    assert!(run("import os\nassert os.listdir('.') == [], os.listdir('.')\nopen('left', 'w').write('x')").passed);
    assert!(run("import os\nassert os.listdir('.') == []").passed);
}

#[test]
fn files_cannot_fill_the_disk() {
    let outcome = run("f = open('big', 'wb')\nfor _ in range(200):\n    f.write(bytes(1 << 20))\n    f.flush()");
    assert!(!outcome.passed, "{}", outcome.reason);
}

#[test]
fn secrets_are_not_passed_on() {
    // Set by cargo for every test, so there is something that could leak.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    for sandbox in alone() {
        let program = "import os\nassert not [n for n in os.environ if n not in ('PYTHONHASHSEED', 'HOME', 'LC_CTYPE', 'PWD')], list(os.environ)\n\
                       for path in ['/proc/self/environ', f'/proc/{os.getppid()}/environ', '/etc/passwd', '/etc/shadow']:\n    \
                           try:\n        text = open(path).read()\n    \
                           except OSError:\n        continue\n    \
                           assert 'CARGO' not in text and 'root' not in text, path";
        let outcome = sandbox.run(program).unwrap();
        assert!(outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
    }
}

#[test]
fn no_socket_opens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for sandbox in alone() {
        for program in [
            format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)"),
            "import socket\nsocket.socket(socket.AF_UNIX)".into(),
            "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)".into(),
            "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')".into(),
        ] {
            let outcome = sandbox.run(&program).unwrap();
            assert!(!outcome.passed, "{}: {program}", sandbox.layers());
        }
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
}

#[test]
fn the_parent_cannot_be_killed() {
    for sandbox in alone() {
        let parent = std::process::id();
        let program = format!(
            "import os, signal\n\
             for target in [{parent}, os.getppid(), -1, 0, -{parent}]:\n    \
                 try:\n        os.kill(target, signal.SIGKILL)\n    \
                 except OSError:\n        continue\n    \
                 raise SystemError(target)\n"
        );
        let outcome = sandbox.run(&program).unwrap();
        assert!(outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
    }
}

#[test]
fn limits_cannot_be_raised_and_nothing_survives() {
    let program = "import resource\nfor name in ['RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_NOFILE']:\n    \
                   try:\n        resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY,) * 2)\n    \
                   except (ValueError, OSError):\n        continue\n    \
                   raise SystemError(name)\n";
    for sandbox in alone() {
        let outcome = sandbox.run(program).unwrap();
        assert!(outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
    }
    // A child of it, with nothing but the process group to hold it.
    let folder = tempfile::tempdir().unwrap();
    let sign = folder.path().join("alive");
    let program = format!(
        "import os, time\nif os.fork() == 0:\n    time.sleep(2)\n    open({sign:?}, 'w').write('x')\nelse:\n    pass\n"
    );
    let _ = quick().with_layers(&[]).run(&program);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!sign.exists(), "a child of the program lived on");
}

#[test]
fn the_report_cannot_be_forged() {
    let forge = "import __main__, gc, os, sys\n\
        def forge(word):\n    \
            os.write(1, b'\\n' + word + b' passed\\n')\n    \
            os._exit(0)\n\
        def frames():\n    \
            frame = sys._getframe()\n    \
            while frame.f_back:\n        frame = frame.f_back\n    \
            return frame.f_globals\n";
    for attempt in [
        "forge(vars(__main__)['word'])",
        "forge(frames()['word'])",
        "[forge(x['word']) for x in gc.get_objects() if isinstance(x, dict) and isinstance(x.get('word'), bytes)]",
        "[forge(x) for x in vars(__main__).values() if isinstance(x, bytes)]",
        "[os.write(descriptor, b'passed\\n') for descriptor in (1, 2)]",
    ] {
        let outcome = run(&format!("{forge}{attempt}\nassert False\n"));
        assert!(!outcome.passed, "{attempt}: {}", outcome.reason);
    }
}

/// A program in which every attempt must fail.
fn refused(attempts: &[&str]) -> String {
    let attempts: String = attempts.iter().map(|attempt| format!("    lambda: {attempt},\n")).collect();
    format!(
        "import ctypes, fcntl, os, resource, signal, struct\n\
         library = ctypes.CDLL(None, use_errno=True)\n\
         def call(*arguments):\n    \
             if library.syscall(*arguments) < 0:\n        raise OSError(ctypes.get_errno(), 'refused')\n\
         parent = os.getppid()\n\
         reader, writer = os.pipe()\n\
         attempts = [\n{attempts}]\n\
         for number, attempt in enumerate(attempts):\n    \
             try:\n        attempt()\n    \
             except OSError:\n        continue\n    \
             raise SystemError(number)\n"
    )
}

#[test]
fn other_processes_are_out_of_reach() {
    let program = refused(&[
        "resource.prlimit(parent, resource.RLIMIT_CORE)",
        "resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0))",
        "os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent))",
        "os.sched_setaffinity(parent, os.sched_getaffinity(parent))",
        "os.sched_setscheduler(parent, os.SCHED_OTHER, os.sched_param(0))",
        // A pipe that signals another process when it can be read.
        "fcntl.fcntl(reader, fcntl.F_SETOWN, parent)",
        "fcntl.fcntl(reader, 15, struct.pack('ii', 1, parent))",
        "fcntl.ioctl(reader, 0x8901, struct.pack('i', parent))",
    ]);
    for sandbox in alone() {
        let outcome = sandbox.run(&program).unwrap();
        assert!(outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn newer_and_stranger_calls_are_refused_too() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let home = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let precious = home.path().join("precious");
    std::fs::write(&precious, "data").unwrap();
    std::fs::set_permissions(&precious, std::fs::Permissions::from_mode(0o600)).unwrap();
    let before = std::fs::metadata(&precious).unwrap();
    let path = format!("b{:?}", precious.to_str().unwrap());
    let program = refused(&[
        &format!("call(452, -100, {path}, 0o777, 0)"),
        &format!("call(235, {path}, 0)"),
        &format!("call(261, -100, {path}, 0)"),
        &format!("os.removexattr({path}, 'user.mark')"),
        // The numbers of fork and socket in the x32 interface.
        "call(0x40000000 | 57)",
        "call(0x40000000 | 41, 2, 1, 0)",
        // What the System V and POSIX calls make would stay when the program is gone.
        "call(29, 0x1ac, 4096, 0o1600)",
        "call(64, 0x1ac, 1, 0o1600)",
        "call(68, 0x1ac, 0o1600)",
        "call(240, b'lacuna', 0o102, 0o600, 0)",
        // To live on when the evaluation is killed.
        "call(157, 1, 0, 0, 0, 0)",
        "os.sethostname('lacuna') if hasattr(os, 'sethostname') else call(170, b'lacuna', 6)",
    ]);
    // Nor is anything left of what root may do.
    let powerless = "import ctypes, struct\n\
        sets = ctypes.create_string_buffer(24)\n\
        assert ctypes.CDLL(None).syscall(125, struct.pack('Ii', 0x20080522, 0), sets) == 0\n\
        assert not any(sets.raw), sets.raw.hex()\n";
    for sandbox in alone() {
        for program in [program.as_str(), powerless] {
            let outcome = sandbox.run(program).unwrap();
            assert!(outcome.passed, "{}: {}", sandbox.layers(), outcome.reason);
        }
    }
    let after = std::fs::metadata(&precious).unwrap();
    assert_eq!((after.mode(), after.mtime_nsec()), (before.mode(), before.mtime_nsec()));
}

#[test]
fn many_files_cannot_fill_the_disk_either() {
    for folder in [".", ".."] {
        let program = format!(
            "import time\nfor number in range(40):\n    \
                 open(f'{folder}/{{number}}', 'wb').write(bytes(1 << 20))\n    \
                 time.sleep(0.02)\n"
        );
        for sandbox in alone() {
            let outcome = sandbox.run(&program).unwrap();
            assert!(!outcome.passed, "{}: {folder}", sandbox.layers());
        }
    }
}

#[test]
fn many_programs_run_side_by_side_in_order() {
    let programs: Vec<String> = (0..12).map(|number| format!("assert {number} % 3 != 0")).collect();
    // Whatever the evaluation has open does not count against a program's limit.
    let _open: Vec<std::fs::File> = (0..100).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let outcomes = sandbox().run_all(&programs, 4).unwrap();
    let passed: Vec<bool> = outcomes.iter().map(|outcome| outcome.passed).collect();
    assert_eq!(passed, (0..12).map(|number| number % 3 != 0).collect::<Vec<_>>());
}

#[test]
fn what_is_active_is_reported() {
    let sandbox = sandbox();
    assert!(sandbox.layers().confine());
    assert!(sandbox.interpreter().version.starts_with("3."));
    writeln!(std::io::stdout(), "{} with Python {}", sandbox.layers(), sandbox.interpreter().version).unwrap();
}
