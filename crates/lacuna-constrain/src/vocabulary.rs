use std::hash::{DefaultHasher, Hash, Hasher};

/// The tokens of a tokenizer as byte strings.
///
/// A token without bytes (a mask, a header, a token unused) is never allowed by a constraint. End tokens are allowed
/// behind a finished text, and only there.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    len: usize,
    /// Tokens that spell bytes, sorted by them: with the length of the prefix that each shares with the one before, the
    /// list is a trie walked depth first.
    sorted: Vec<Spelled>,
    bytes: Vec<u8>,
    end: Vec<u32>,
    fingerprint: u64,
}

#[derive(Clone, Copy, Debug)]
struct Spelled {
    token: u32,
    start: u32,
    end: u32,
    shared: u32,
}

impl Vocabulary {
    /// A vocabulary from every token's bytes, in the order of ids. `end` are the tokens that end a text and fill the
    /// canvas behind it; their bytes do not count. A token that spells no bytes is never allowed.
    ///
    /// # Panics
    /// If an end token is not a token of the vocabulary.
    pub fn new<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = Option<T>>, end: &[u32]) -> Self {
        let mut texts: Vec<(Vec<u8>, u32)> = Vec::new();
        let mut len = 0;
        for (id, token) in tokens.into_iter().enumerate() {
            len = id + 1;
            let text = token.filter(|text| !text.as_ref().is_empty() && !end.contains(&(id as u32)));
            texts.extend(text.map(|text| (text.as_ref().to_vec(), id as u32)));
        }
        assert!(end.iter().all(|&id| (id as usize) < len), "an end token is not in the vocabulary of {len} tokens");
        texts.sort();
        let mut hasher = DefaultHasher::new();
        (len, end, &texts).hash(&mut hasher);
        let (mut sorted, mut bytes) = (Vec::with_capacity(texts.len()), Vec::new());
        let mut before: &[u8] = &[];
        for (text, token) in &texts {
            let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count() as u32;
            let start = bytes.len() as u32;
            bytes.extend_from_slice(text);
            sorted.push(Spelled { token: *token, start, end: bytes.len() as u32, shared });
            before = text;
        }
        Self { len, sorted, bytes, end: end.to_vec(), fingerprint: hasher.finish() }
    }

    /// The number of tokens, those without bytes among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a vocabulary without tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tokens that end a text.
    #[must_use]
    pub fn end(&self) -> &[u32] {
        &self.end
    }

    /// A hash of all tokens, to tell vocabularies apart.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Every token that spells bytes, sorted by them: id, bytes, and how many of them the one before begins with too.
    pub(crate) fn walk(&self) -> impl Iterator<Item = (u32, &[u8], usize)> {
        self.sorted.iter().map(|s| (s.token, &self.bytes[s.start as usize..s.end as usize], s.shared as usize))
    }
}
