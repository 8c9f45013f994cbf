//! The console at `/`: a page that asks the routes everybody asks. Its files are part of the program.
//!
//! Must not know: what the page shows.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::routing::get;

use super::answer::with_type;

/// What the page may do: run and load what comes from here, ask here, and be in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the console.
struct File {
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

macro_rules! file {
    ($path:literal, $name:literal, $content_type:literal) => {
        File {
            path: $path,
            content_type: $content_type,
            content: include_str!(concat!("../../console/", $name)),
        }
    };
}

const FILES: [File; 10] = [
    file!("/", "index.html", "text/html; charset=utf-8"),
    file!("/console/icon.svg", "icon.svg", "image/svg+xml"),
    file!("/console/console.css", "console.css", "text/css; charset=utf-8"),
    file!("/console/main.js", "main.js", "text/javascript; charset=utf-8"),
    file!("/console/page.js", "page.js", "text/javascript; charset=utf-8"),
    file!("/console/api.js", "api.js", "text/javascript; charset=utf-8"),
    file!("/console/proof.js", "proof.js", "text/javascript; charset=utf-8"),
    file!("/console/overview.js", "overview.js", "text/javascript; charset=utf-8"),
    file!("/console/projections.js", "projections.js", "text/javascript; charset=utf-8"),
    file!("/console/workspace.js", "workspace.js", "text/javascript; charset=utf-8"),
];

pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, file| {
        let File { path, content_type, content } = file;
        router.route(path, get(async move || response(content_type, content)))
    })
}

/// Where its files are.
#[cfg(test)]
pub(super) fn paths() -> impl Iterator<Item = String> {
    FILES.into_iter().map(|file| file.path.to_owned())
}

fn response(content_type: &'static str, content: &'static str) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, content_type, content);
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // The program may be another one tomorrow, with the same address.
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_console_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| format!("/console/{}", file.unwrap().file_name().into_string().unwrap()))
            .collect();
        let name = |file: &File| match file.path {
            "/" => "/console/index.html".to_owned(),
            path => path.to_owned(),
        };
        let served: BTreeSet<String> = FILES.iter().map(name).collect();
        assert_eq!(served, there);
    }
}
