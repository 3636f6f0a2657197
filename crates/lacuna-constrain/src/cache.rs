use std::sync::{Arc, Mutex, PoisonError};

use crate::{Compiled, Constraint, Options, Refused, Vocabulary};

/// Compiled constraints, kept by their text. Those not used for longest make room for new ones. Refusals are kept as well:
/// they take the longest to find.
#[derive(Debug)]
pub struct Cache {
    capacity: usize,
    /// The most recently used first.
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    outcome: Outcome,
    bytes: usize,
}

type Key = (String, Options, u64);
type Outcome = Result<Arc<Compiled>, Refused>;

impl Cache {
    /// A cache of so many bytes. A constraint takes from one to some tens of megabytes, most of it for the tokens of the
    /// vocabulary.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, entries: Mutex::default() }
    }

    /// The compiled constraint, from the cache or made now. Others can use the cache meanwhile.
    ///
    /// # Errors
    /// As [`Constraint::compile`].
    pub fn compile(&self, constraint: &Constraint, vocabulary: &Vocabulary, options: &Options) -> Outcome {
        let key = (constraint.key(), options.clone(), vocabulary.fingerprint());
        if let Some(found) = self.find(&key) {
            return found;
        }
        let outcome = constraint.compile(vocabulary, options);
        let bytes = key.0.len() + outcome.as_ref().map_or(0, |compiled| compiled.bytes());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.key != key);
        entries.insert(0, Entry { key, outcome: outcome.clone(), bytes });
        let mut total = 0;
        entries.retain(|entry| {
            total += entry.bytes;
            total <= self.capacity
        });
        outcome
    }

    fn find(&self, key: &Key) -> Option<Outcome> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|entry| entry.key == *key)?;
        entries[..=at].rotate_right(1);
        Some(entries[0].outcome.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_makes_room() {
        let vocabulary = Vocabulary::new([Some("a"), Some("b")], &[]);
        let regex = |text: &str| Constraint::Regex(text.into());
        let one = regex("a").compile(&vocabulary, &Options::default()).expect("compiles").bytes();
        let cache = Cache::new(one * 3);
        let get = |text: &str| cache.compile(&regex(text), &vocabulary, &Options::default()).expect("compiles");
        let (a, b) = (get("a"), get("b"));
        assert!(Arc::ptr_eq(&a, &get("a")));
        get("[ab]"); // b makes room
        assert!(Arc::ptr_eq(&a, &get("a")));
        assert!(!Arc::ptr_eq(&b, &get("b")));
    }

    #[test]
    fn vocabularies_and_options_are_told_apart() {
        let cache = Cache::new(1 << 20);
        let (one, two) = (Vocabulary::new([Some("a")], &[]), Vocabulary::new([Some("a"), Some("aa")], &[]));
        let constraint = Constraint::Regex("a*".into());
        let first = cache.compile(&constraint, &one, &Options::default()).expect("compiles");
        let second = cache.compile(&constraint, &two, &Options::default()).expect("compiles");
        let third = cache.compile(&constraint, &two, &Options { spacing: crate::Spacing::Compact, depth: None });
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&second, &third.expect("compiles")));
    }

    #[test]
    fn refusals_are_kept() {
        let cache = Cache::new(1 << 20);
        let vocabulary = Vocabulary::new([Some("a")], &[]);
        let hostile = Constraint::Regex("(a|b)*a(a|b){40}".into());
        let first = cache.compile(&hostile, &vocabulary, &Options::default()).expect_err("refused");
        assert_eq!(cache.entries.lock().expect("free").len(), 1);
        assert_eq!(cache.compile(&hostile, &vocabulary, &Options::default()).expect_err("refused"), first);
    }
}
