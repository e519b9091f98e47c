//! The page. A nonce, new for each answer, admits its own script and style; nothing else is loaded or executed.

use super::response::{WebResponse, full, header};
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use paceline_pool::credentials::random;

const PAGE: &str = include_str!("page.html");

/// The place of the nonce in the page.
const NONCE: &str = "{{nonce}}";

/// The page, which has no data.
pub(super) fn page() -> WebResponse {
    let Ok(bits) = random::<16>() else {
        return super::response::text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the system gives no random numbers",
        );
    };
    let nonce = format!("{:032x}", u128::from_be_bytes(bits));
    let mut answer = full(
        StatusCode::OK,
        "text/html; charset=utf-8",
        PAGE.replace(NONCE, &nonce),
    );
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        header(&mut answer, CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_own_nonce() {
        let policy = |answer: &WebResponse| answer.headers()[CONTENT_SECURITY_POLICY].clone();
        assert_ne!(policy(&page()), policy(&page()));
    }

    #[test]
    fn the_page_contains_all_it_needs() {
        for outside in [
            "http://",
            "https://",
            " src=",
            "@import",
            "url(",
            "innerHTML",
            "eval(",
        ] {
            let address_of_svg = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!address_of_svg.contains(outside), "{outside}");
        }
        assert_eq!(PAGE.matches(NONCE).count(), 2);
    }
}
