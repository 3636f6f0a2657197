//! The origin of a request, which all its log lines name.

use std::sync::{Arc, OnceLock};

use crate::keys::Key;

/// Ids of clients are taken over if they are at most this long.
const MAX_ID: usize = 128;

tokio::task_local! {
    /// The request that the task answers.
    static CURRENT: Arc<Context>;
}

/// A request, as the log names it.
#[derive(Debug)]
pub(crate) struct Context {
    /// The client's own id if it sent one, else ours.
    pub(crate) id: Arc<str>,
    /// The client's trace, and our span in it.
    pub(crate) trace: Option<Trace>,
    /// The key that it was sent with, once it is checked.
    pub(crate) key: OnceLock<Arc<Key>>,
}

/// A W3C trace context.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The trace, in 32 hexadecimal digits.
    pub(crate) id: String,
    /// The client's span, in 16.
    pub(crate) parent: String,
    /// Ours.
    pub(crate) span: String,
    flags: String,
}

impl Context {
    pub(crate) fn new(id: &str, trace: Option<Trace>) -> Arc<Self> {
        Arc::new(Self { id: id.into(), trace, key: OnceLock::new() })
    }

    /// The request that the running task answers.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.try_with(Arc::clone).unwrap_or_else(|_| Self::new("none", None))
    }

    /// Answers a request in its context.
    pub(crate) async fn scope<F: Future>(self: &Arc<Self>, answer: F) -> F::Output {
        CURRENT.scope(self.clone(), answer).await
    }

    /// The name of its key.
    pub(crate) fn key_name(&self) -> Option<&str> {
        self.key.get().map(|key| key.name.as_str())
    }

    /// Its trace's id.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        self.trace.as_ref().map(|trace| trace.id.as_str())
    }
}

/// The id that a client sent, if it can be taken over: printable ASCII, so that no log line can be forged.
pub(crate) fn client_id(header: &[u8]) -> Option<&str> {
    let id = std::str::from_utf8(header).ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@,~".contains(&byte);
    ((1..=MAX_ID).contains(&id.len()) && id.bytes().all(plain)).then_some(id)
}

impl Trace {
    /// Reads a `traceparent` header: version, trace, span and flags. `number` makes our span unlike others.
    pub(crate) fn parse(header: &[u8], number: u64) -> Option<Self> {
        let header = std::str::from_utf8(header).ok()?;
        let mut parts = header.split('-');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(part)
        };
        let (version, id, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let zero = |digits: &str| digits.bytes().all(|byte| byte == b'0');
        // Later versions may go on after these four.
        if version == "ff" || (version == "00" && parts.next().is_some()) || zero(id) || zero(parent) {
            return None;
        }
        let span = format!("{:016x}", number.max(1));
        Some(Self { id: id.into(), parent: parent.into(), span, flags: flags.into() })
    }

    /// The `traceparent` header with this request's span.
    pub(crate) fn header(&self) -> String {
        format!("00-{}-{}-{}", self.id, self.span, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_and_valid_traces_are_taken_over() {
        assert_eq!(client_id(b"abc-123"), Some("abc-123"));
        let long = "x".repeat(129);
        for bad in ["", "two words", "a\nb", "\u{1b}[31m", "a\"b", &long] {
            assert_eq!(client_id(bad.as_bytes()), None, "{bad:?}");
        }
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = Trace::parse(good.as_bytes(), 255).unwrap();
        assert_eq!(trace.header(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ff-01");
        assert_eq!(trace.parent, "00f067aa0ba902b7");
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::parse(bad.as_bytes(), 1), None, "{bad}");
        }
    }
}
