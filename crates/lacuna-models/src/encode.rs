//! From prompts, and texts in which gaps and drafts are written out, to tokens.

use std::ops::Range;

use lacuna::Token;

use crate::{Checkpoint, Error, Kind, Result};

/// Notation of a gap.
const GAP: &str = "<gap:N>, where N is its length in tokens, or <gap> to have the length found";

/// The marks of a template, and what each begins.
const MARKS: [(&str, Mark); 4] =
    [("<gap:", Mark::Gap), ("<gap>", Mark::Unknown), ("<draft>", Mark::Draft), ("</draft>", Mark::Close)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Gap,
    Unknown,
    Draft,
    Close,
}

/// A text with gaps and drafts, as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The tokens, the mask token where a gap is.
    pub tokens: Vec<Token>,
    /// Positions that a revision may reopen.
    pub drafts: Vec<Range<usize>>,
    /// The masks that stand for gaps of unknown length.
    pub unknown: Vec<usize>,
}

impl Template {
    /// A canvas of raw tokens, the mask token where a gap is.
    pub fn of_tokens(tokens: Vec<Token>, mask: Token) -> Result<Self> {
        if !tokens.contains(&mask) {
            let why = lacuna::Error::NoGaps;
            return Err(Error::Request(format!("{why}: write each gap as the mask token, {mask}")));
        }
        Ok(Self { tokens, ..Self::default() })
    }

    /// The template behind a prompt.
    pub fn after(mut self, prompt: &[Token]) -> Self {
        let by = prompt.len();
        self.tokens.splice(0..0, prompt.iter().copied());
        self.drafts.iter_mut().for_each(|draft| *draft = draft.start + by..draft.end + by);
        self.unknown.iter_mut().for_each(|gap| *gap += by);
        self
    }

    /// True if it ends with a gap of unknown length, which ends where the model ends the text.
    pub fn is_open(&self) -> bool {
        !self.tokens.is_empty() && self.unknown.last() == Some(&(self.tokens.len() - 1))
    }

    /// Kind of a run of it: a text with an open end is an answer.
    pub fn kind(&self) -> Kind {
        if self.is_open() { Kind::Answer } else { Kind::Fill }
    }
}

/// True if a text ends with a gap of unknown length.
pub fn ends_open(text: &str) -> bool {
    text.ends_with("<gap>")
}

/// True if a text has a draft in it.
pub(crate) fn has_draft(text: &str) -> bool {
    text.contains("<draft>")
}

impl Checkpoint {
    /// The tokens of a prompt: in the model's chat template if it has one, unless the prompt is to stay as it is.
    pub fn encode_prompt(&self, prompt: &str, system: Option<&str>, raw: bool) -> Result<Vec<Token>> {
        if prompt.trim().is_empty() {
            return Err(Error::Request("the prompt is empty: give the model some text to answer".into()));
        }
        let text = self.text()?;
        if raw || (!text.can_chat() && system.is_none()) {
            return text.encode(prompt);
        }
        let system = system.map(|content| ("system", content));
        text.chat(&Vec::from_iter(system.into_iter().chain([("user", prompt)])))
    }

    /// A text in which `<gap:N>` stands for N masks, `<gap>` for as many as are found, and `<draft>…</draft>` encloses what a revision
    /// may reopen. What lies between marks is tokenized on its own.
    pub fn encode_template(&self, text: &str) -> Result<Template> {
        self.encode_marks(text, false)
    }

    /// The template of a text that is to be revised: all of it is a draft, unless it has drafts in it.
    pub fn encode_draft(&self, text: &str) -> Result<Template> {
        self.encode_marks(text, !has_draft(text))
    }

    fn encode_marks(&self, text: &str, all: bool) -> Result<Template> {
        let mut template = Template::default();
        let mut rest = text;
        let mut open = false;
        while let Some((start, mark)) = next_mark(rest) {
            self.add(&mut template, &rest[..start], all || open)?;
            let behind = &rest[start..];
            let after = |name: &str| &behind[name.len()..];
            rest = match mark {
                Mark::Draft if open => return refuse(behind, "<draft> inside a draft: end the first with </draft>"),
                Mark::Gap | Mark::Unknown if open => {
                    return refuse(behind, "a draft has no gaps in it: end it with </draft> before the gap");
                }
                Mark::Close if !open => return refuse(behind, "no draft has begun: begin it with <draft>"),
                Mark::Draft => after("<draft>"),
                Mark::Close => after("</draft>"),
                Mark::Unknown => {
                    template.unknown.push(template.tokens.len());
                    template.tokens.push(self.mask_token()?);
                    after("<gap>")
                }
                Mark::Gap => {
                    let parsed = after("<gap:").split_once('>');
                    let parsed = parsed.and_then(|(digits, after)| Some((digits.parse::<usize>().ok()?, after)));
                    let Some((length, after)) = parsed.filter(|(length, _)| *length > 0) else {
                        return refuse(behind, &format!("not a gap: write {GAP}; N is 1 or more"));
                    };
                    if length.saturating_add(template.tokens.len()) > self.architecture().context {
                        let why = format!("a gap of {length} tokens reaches beyond the model's context");
                        return Err(Error::Request(why));
                    }
                    template.tokens.resize(template.tokens.len() + length, self.mask_token()?);
                    after
                }
            };
            match mark {
                Mark::Draft => open = true,
                Mark::Close => open = false,
                Mark::Gap | Mark::Unknown => {}
            }
        }
        if open {
            return Err(Error::Request("a draft does not end: end it with </draft>".into()));
        }
        self.add(&mut template, rest, all)?;
        if template.drafts.is_empty() && !template.tokens.contains(&self.mask_token()?) {
            return Err(Error::Request(format!("the text has no gap: write each gap as {GAP}")));
        }
        Ok(template)
    }

    /// Appends a text.
    fn add(&self, template: &mut Template, text: &str, draft: bool) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let start = template.tokens.len();
        template.tokens.extend(self.text()?.encode(text)?);
        if draft {
            template.drafts.push(start..template.tokens.len());
        }
        Ok(())
    }
}

/// The first mark of a text.
fn next_mark(text: &str) -> Option<(usize, Mark)> {
    let found = MARKS.into_iter().filter_map(|(name, mark)| Some((text.find(name)?, mark)));
    found.min_by_key(|(start, _)| *start)
}

fn refuse<T>(behind: &str, why: &str) -> Result<T> {
    let shown: String = behind.chars().take(16).collect();
    Err(Error::Request(format!("at '{shown}…': {why}")))
}
