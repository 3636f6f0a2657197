//! Output that is guaranteed to fit, for text that is not written from left to right.
//!
//! A masked diffusion model fills a canvas of known length in any order. A constraint (a regular expression, a JSON schema,
//! a grammar) says which texts the finished canvas may hold. This crate answers, at any time and for any position, with
//! which tokens the canvas can still be completed. The answer is exact: each token it allows leads to at least one finished
//! canvas that fits, and each token it does not allow leads to none. Whoever fills positions only with allowed tokens never
//! comes to a dead end and needs no forward pass more than without a constraint.
//!
//! # The method
//!
//! 1. **Bytes.** The constraint becomes a deterministic finite automaton over bytes, made minimal. What a finite automaton
//!    cannot hold, such as unlimited nesting, is bounded.
//! 2. **Tokens.** A token is a string of bytes, so it leads each state to one state or nowhere. Tokens that do the same to
//!    all states form a class. There are few classes (hundreds, for a vocabulary of a hundred thousand), and everything
//!    below is done on classes. An end token leads from each accepting state to one last state, and from there to itself.
//! 3. **Reachability.** A canvas of `n` positions has `n + 1` boundaries. From the left, a state can stand at a boundary if
//!    it can stand at the one before and the token between leads there: the decided token, or any token at a mask. From the
//!    right, a state can stand at a boundary if the text can be completed from it. Each state has one row of bits for its
//!    boundaries, so that a move over all masks is one shift of a row.
//! 4. **Allowed tokens.** A class is allowed at a position if it leads from some state that can stand before it, from the
//!    left, to one that can stand behind it, from the right.
//!
//! After a token is committed, steps 3 and 4 are done again; both take microseconds.
//!
//! # Example
//!
//! ```
//! use lacuna_constrain::{Constraint, Ending, Fit, Options, Vocabulary};
//!
//! // Ids 0 to 4; the last token ends the text.
//! let vocabulary = Vocabulary::new([Some("a"), Some("b"), Some("ab"), None, None], &[4]);
//! let constraint = Constraint::Regex("a+b".into());
//! let compiled = constraint.compile(&vocabulary, &Options::default())?;
//!
//! let mut fit = Fit::new(&compiled, &[None, None, None], Ending::Padded)?;
//! assert_eq!(fit.allowed(0)[..], [0b00101]); // "a", or "ab" with the text ending there
//! assert_eq!(fit.allowed(2)[..], [0b10110]); // "b" or "ab" to end with, or the end of the text before
//! fit.commit(2, 4)?;
//! fit.commit(1, 2)?;
//! assert_eq!(fit.allowed(0)[..], [0b00001]); // only "a" can stand before "ab"
//!
//! // What does not fit into the length given is refused with the length that would do.
//! let longer = Constraint::Regex("(ab){3}".into()).compile(&vocabulary, &Options::default())?;
//! assert_eq!(Fit::new(&longer, &[None, None], Ending::Padded).unwrap_err().shortest, Some(3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bounds
//!
//! Compiling takes bounded time and memory: a constraint whose automaton is too large is refused with a sentence that names
//! the limit. Recursion, in a grammar or a schema, is unrolled as deep as the limit on states allows
//! ([`Options::depth`], [`Compiled::depth`]); a recursive rule at the end of another is a loop and not bounded.

mod automaton;
mod bits;
mod cache;
mod chars;
mod constraint;
mod error;
mod fit;
mod gbnf;
mod json;
mod number;
mod pattern;
mod reach;
mod schema;
mod shortest;
mod tokenizer;
mod tokens;
mod transpose;
mod vocabulary;

pub use cache::Cache;
pub use constraint::{Compiled, Constraint, Options, Spacing};
pub use error::{Impossible, NotAllowed, Refused};
pub use fit::{Ending, Fit};
pub use tokenizer::{TokenizerError, token_bytes};
pub use vocabulary::Vocabulary;
