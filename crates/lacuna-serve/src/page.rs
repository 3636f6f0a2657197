//! The page at the root, embedded in the program.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Content security policy: the page loads only files of this server, and no other site may frame it.
const POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page: its name and its content.
type File = (&'static str, &'static [u8]);

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../playground/", $name)))),*]
    };
}

/// Every file in `playground/` that is served.
const FILES: &[File] = files![
    "index.html",
    "api.js",
    "app.js",
    "arcs.js",
    "base.css",
    "canvas.css",
    "canvas.js",
    "catalogue.js",
    "colour.js",
    "compose.css",
    "compose.js",
    "controls.css",
    "dom.js",
    "examples.js",
    "floating.css",
    "frame.css",
    "guide.js",
    "icon.svg",
    "lane.css",
    "lane.js",
    "map.js",
    "panels.css",
    "player.css",
    "player.js",
    "quantity.js",
    "reading.css",
    "run.js",
    "session.js",
    "share.js",
    "story.js",
    "theme.js",
    "timeline.js",
    "tip.js",
    "tokens.js",
    "wheel.js",
    "why.js",
    "recorded.jsonl",
];

/// The page's routes: each file under its name, the first one also at the root.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let root = FILES.iter().take(1).map(|file| ("/".to_string(), file));
    let named = FILES.iter().map(|file| (format!("/{}", file.0), file));
    root.chain(named).fold(Router::new(), |router, (path, file)| {
        router.route(&path, get(move |headers: HeaderMap| serve(file, headers)))
    })
}

/// The name under which requests for the page's files are counted together, if `route` is one of them.
pub(crate) fn series(route: &str) -> Option<&'static str> {
    let name = route.strip_prefix('/')?;
    FILES.iter().any(|file| file.0 == name).then_some("/{file}")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("jsonl") => "application/jsonl; charset=utf-8",
        _ => "application/octet-stream",
    }
}

async fn serve((name, content): &'static File, headers: HeaderMap) -> Response {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let common = [
        (ETAG, tag.as_str()),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(CONTENT_TYPE, content_type(name))], Bytes::from_static(content)).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::FILES;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/playground");
        let there = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let served = FILES.iter().map(|(name, _)| (*name).to_string());
        assert_eq!(served.collect::<BTreeSet<_>>(), there.collect());
    }
}
