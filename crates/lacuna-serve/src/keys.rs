//! API keys: who may ask, under which name, and how much.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use subtle::{ConditionallySelectable, ConstantTimeEq};

/// A minute, in seconds: what rates are counted in.
const MINUTE: f64 = 60.0;
const MAX_NAME: usize = 64;

/// A secret that clients must know, and what they may do with it. The secret is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    secret: String,
    /// Its name in the log.
    name: Option<String>,
    requests_per_minute: Option<u32>,
    tokens_per_minute: Option<u32>,
    concurrent: Option<u32>,
}

impl ApiKey {
    /// A key without a name or limits, if `text` can be one: printable ASCII without spaces.
    pub fn new(text: &str) -> Option<Self> {
        let usable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let (requests_per_minute, tokens_per_minute, concurrent) = (None, None, None);
        usable.then(|| Self { secret: text.into(), name: None, requests_per_minute, tokens_per_minute, concurrent })
    }

    /// A key as a line of a file has it: `KEY [name=NAME] [requests_per_minute=N] [tokens_per_minute=N] [concurrent=N]`. The
    /// error says what is wrong, without the key.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let key = words.next().and_then(Self::new);
        let mut key = key.ok_or("an API key is printable ASCII without spaces, and not empty")?;
        let settings = "name=NAME, requests_per_minute=N, tokens_per_minute=N and concurrent=N";
        for word in words {
            let (setting, value) = word.split_once('=').ok_or_else(|| format!("only {settings} may follow a key"))?;
            let number = || match value.parse::<u32>() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(format!("{setting} must be a whole number, 1 or more")),
            };
            match setting {
                "name" => {
                    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
                    if value.is_empty() || value.len() > MAX_NAME || !value.bytes().all(plain) {
                        return Err(format!("a key's name has 1 to {MAX_NAME} letters, digits and . _ - @"));
                    }
                    key.name = Some(value.into());
                }
                "requests_per_minute" => key.requests_per_minute = number()?,
                "tokens_per_minute" => key.tokens_per_minute = number()?,
                "concurrent" => key.concurrent = number()?,
                _ => return Err(format!("only {settings} may follow a key")),
            }
        }
        Ok(key)
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The keys that are valid now.
#[derive(Debug)]
pub(crate) struct Keys(RwLock<Vec<Arc<Key>>>);

/// A valid key, and how much of its limits is used.
#[derive(Debug)]
pub(crate) struct Key {
    key: ApiKey,
    /// Its name in the log.
    pub(crate) name: String,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    requests: Bucket,
    tokens: Bucket,
    running: u32,
}

/// The used part of a rate. It runs empty at the rate's speed.
#[derive(Debug, Default)]
struct Bucket {
    level: f64,
    since: Option<Instant>,
}

/// A limit of a key that is reached.
#[derive(Debug)]
pub(crate) struct Exceeded {
    pub(crate) message: String,
    pub(crate) retry_after: u64,
}

/// The right to answer one request; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Key>);

impl Keys {
    pub(crate) fn new(keys: Vec<ApiKey>) -> Self {
        let this = Self(RwLock::default());
        this.replace(keys);
        this
    }

    /// Makes these the valid keys. What is used of those that stay stays used.
    pub(crate) fn replace(&self, keys: Vec<ApiKey>) {
        let mut valid = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let renew = |(number, key): (usize, ApiKey)| {
            let name = key.name.clone().unwrap_or_else(|| format!("key-{}", number + 1));
            let known = valid.iter().find(|known| known.key.secret == key.secret);
            match known {
                Some(known) if known.key == key && known.name == name => known.clone(),
                _ => Arc::new(Key { key, name, used: Mutex::default() }),
            }
        };
        *valid = keys.into_iter().enumerate().map(renew).collect();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The key of these bytes. Every key is compared, each in constant time.
    pub(crate) fn find(&self, secret: &[u8]) -> Option<Arc<Key>> {
        let valid = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = valid.iter().enumerate().fold(u64::MAX, |found, (number, key)| {
            u64::conditional_select(&found, &(number as u64), key.key.secret.as_bytes().ct_eq(secret))
        });
        valid.get(usize::try_from(found).ok()?).cloned()
    }
}

impl Key {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, unless a limit is reached.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<Lease, Exceeded> {
        let ApiKey { requests_per_minute, tokens_per_minute, concurrent, .. } = self.key;
        let mut used = self.used();
        if let Some(most) = concurrent.filter(|most| used.running >= *most) {
            let message = format!("the key '{}' may have {most} requests answered at a time", self.name);
            return Err(Exceeded { message, retry_after: 1 });
        }
        let exceeded = |most: u32, unit: &str, seconds: f64| {
            let retry_after = (seconds.ceil() as u64).max(1);
            let message =
                format!("the key '{}' may have {most} {unit} a minute: ask again in {retry_after} s", self.name);
            Exceeded { message, retry_after }
        };
        if let Some(most) = tokens_per_minute {
            // What an answer takes is known afterwards, so it is enough that something is left.
            used.tokens.room(most, 1.0).map_err(|seconds| exceeded(most, "tokens", seconds))?;
        }
        if let Some(most) = requests_per_minute {
            used.requests.room(most, 1.0).map_err(|seconds| exceeded(most, "requests", seconds))?;
            used.requests.level += 1.0;
        }
        used.running += 1;
        drop(used);
        Ok(Lease(self.clone()))
    }
}

impl Bucket {
    /// Makes sure that so much fits in; the error is the seconds until it does.
    fn room(&mut self, most: u32, wanted: f64) -> Result<(), f64> {
        let (now, rate) = (Instant::now(), f64::from(most) / MINUTE);
        let passed = self.since.replace(now).map_or(0.0, |since| (now - since).as_secs_f64());
        self.level = (self.level - passed * rate).max(0.0);
        let excess = self.level + wanted - f64::from(most);
        if excess <= 0.0 { Ok(()) } else { Err(excess / rate) }
    }
}

impl Lease {
    /// Counts tokens that were read and written.
    pub(crate) fn charge(&self, tokens: usize) {
        self.0.used().tokens.level += tokens as f64;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.used().running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> Vec<ApiKey> {
        lines.iter().map(|line| ApiKey::parse(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_read_and_mistakes_told_without_the_key() {
        let key = ApiKey::parse("s3cret name=alice requests_per_minute=3 concurrent=2").unwrap();
        assert_eq!((key.name.as_deref(), key.requests_per_minute, key.concurrent), (Some("alice"), Some(3), Some(2)));
        for line in ["", "s3crét", "s3cret other", "s3cret color=red", "s3cret concurrent=0", "s3cret name=a/b"] {
            let error = ApiKey::parse(line).unwrap_err();
            assert!(!error.contains("s3cr") && !error.contains("other"), "{error}");
        }
        assert!(!format!("{key:?}").contains("s3cret"));
    }

    #[test]
    fn limits_hold_each_for_its_own_key() {
        let keys = Keys::new(keys(&["a requests_per_minute=2", "b concurrent=1", "c tokens_per_minute=60", "d"]));
        let find = |secret: &str| keys.find(secret.as_bytes()).unwrap();
        assert!(keys.find(b"e").is_none() && keys.find(b"").is_none());
        drop((find("a").lease().unwrap(), find("a").lease().unwrap()));
        let exceeded = find("a").lease().unwrap_err();
        assert!(exceeded.message.contains("'key-1' may have 2 requests"), "{}", exceeded.message);
        assert!((20..=30).contains(&exceeded.retry_after), "{}", exceeded.retry_after);
        let held = find("b").lease().unwrap();
        assert!(find("b").lease().is_err());
        drop(held);
        find("b").lease().unwrap();
        find("c").lease().unwrap().charge(100);
        let exceeded = find("c").lease().unwrap_err();
        assert!((40..=41).contains(&exceeded.retry_after), "{}", exceeded.retry_after);
        (0..1000).for_each(|_| drop(find("d").lease().unwrap()));
    }

    #[test]
    fn what_is_used_of_a_key_survives_a_reload() {
        let lines = ["a requests_per_minute=1", "b"];
        let valid = Keys::new(keys(&lines));
        valid.find(b"a").unwrap().lease().unwrap();
        valid.replace(keys(&["a requests_per_minute=1", "c"]));
        assert!(valid.find(b"a").unwrap().lease().is_err());
        assert!(valid.find(b"b").is_none() && valid.find(b"c").is_some());
    }
}
