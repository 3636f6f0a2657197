//! Panics of the tokenizer library, turned into errors: it panics on some malformed tokenizer files.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// A panic of this thread will be caught and needs no report on stderr.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. If it panics, the error is the panic's message.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                usual(info);
            }
        }));
    });
    let before = CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    result.map_err(|payload| match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
        (Some(message), _) => message.clone(),
        (_, Some(message)) => message.to_string(),
        _ => "no message".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_caught_with_their_message() {
        assert_eq!(catch(|| 3), Ok(3));
        assert_eq!(catch(|| -> u32 { panic!("one {}", 2) }), Err("one 2".to_string()));
        assert_eq!(catch(|| -> u32 { panic!("fixed") }), Err("fixed".to_string()));
        assert_eq!(catch(|| catch(|| -> u32 { panic!("inner") }).unwrap_or(4)), Ok(4));
    }
}
