use std::sync::{Arc, Mutex, PoisonError};

use crate::{Compiled, Constraint, Options, Refused, Vocabulary};

/// Compiled constraints, kept by their text. The one not used for longest makes room for a new one.
#[derive(Debug)]
pub struct Cache {
    capacity: usize,
    /// The most recently used first.
    entries: Mutex<Vec<(Key, Arc<Compiled>)>>,
}

type Key = (String, Options, u64);

impl Cache {
    /// A cache of so many constraints.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, entries: Mutex::default() }
    }

    /// The compiled constraint, from the cache or made now. Others can use the cache meanwhile.
    ///
    /// # Errors
    /// As [`Constraint::compile`].
    pub fn compile(
        &self,
        constraint: &Constraint,
        vocabulary: &Vocabulary,
        options: &Options,
    ) -> Result<Arc<Compiled>, Refused> {
        let key = (constraint.key(), options.clone(), vocabulary.fingerprint());
        if let Some(found) = self.find(&key) {
            return Ok(found);
        }
        let compiled = constraint.compile(vocabulary, options)?;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(known, _)| *known != key);
        entries.insert(0, (key, compiled.clone()));
        entries.truncate(self.capacity);
        Ok(compiled)
    }

    fn find(&self, key: &Key) -> Option<Arc<Compiled>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(known, _)| known == key)?;
        entries[..=at].rotate_right(1);
        Some(entries[0].1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_makes_room() {
        let vocabulary = Vocabulary::new([Some("a"), Some("b")], &[]);
        let cache = Cache::new(2);
        let get = |text: &str| {
            cache.compile(&Constraint::Regex(text.into()), &vocabulary, &Options::default()).expect("compiles")
        };
        let (a, b) = (get("a"), get("b"));
        assert!(Arc::ptr_eq(&a, &get("a")));
        get("ab"); // b makes room
        assert!(Arc::ptr_eq(&a, &get("a")));
        assert!(!Arc::ptr_eq(&b, &get("b")));
    }

    #[test]
    fn vocabularies_and_options_are_told_apart() {
        let cache = Cache::new(4);
        let (one, two) = (Vocabulary::new([Some("a")], &[]), Vocabulary::new([Some("a"), Some("aa")], &[]));
        let constraint = Constraint::Regex("a*".into());
        let first = cache.compile(&constraint, &one, &Options::default()).expect("compiles");
        let second = cache.compile(&constraint, &two, &Options::default()).expect("compiles");
        let third = cache.compile(&constraint, &two, &Options { spacing: crate::Spacing::Compact, depth: None });
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&second, &third.expect("compiles")));
    }
}
