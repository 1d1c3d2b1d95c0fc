//! Converts a request to the status, content type and bytes of a response. The binary has the socket.

use super::Refusal;
use super::gate::{Denied, Gate, MOVED, Request};
use super::opening::Opening;
use super::page::{Asset, NOT_BUILT, content_type, find};

/// The response, without [`super::gate::HEADERS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status of HTTP.
    pub status: u16,
    /// Kind of `body`.
    pub content_type: &'static str,
    /// The body. For [`MOVED`], the path to use.
    pub body: Vec<u8>,
}

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Responds to a request, or denies it.
pub fn respond(opening: &Opening, gate: &Gate, assets: &[Asset], request: &Request) -> Response {
    let admitted = match gate.admit(request) {
        Ok(admitted) => admitted,
        Err(Denied { status: MOVED, .. }) => {
            let body = format!("/{}/", gate.token).into_bytes();
            return Response { status: MOVED, content_type: TEXT, body };
        }
        Err(Denied { status, reason }) => {
            return Response { status, content_type: TEXT, body: format!("{reason}\n").into_bytes() };
        }
    };
    if let Some(question) = admitted.path.strip_prefix("api/") {
        return match opening.answer(question, admitted.query) {
            Ok(answer) => Response { status: 200, content_type: JSON, body: answer.into_bytes() },
            Err(refusal) => {
                let body = match &refusal {
                    Refusal::Later(stage) => serde_json::json!({
                        "stage": stage.name(),
                        "sentence": stage.sentence(),
                        "switches": opening.switches,
                    }),
                    other => serde_json::json!({"error": other.to_string()}),
                };
                let body = body.to_string().into_bytes();
                Response { status: refusal.status(), content_type: JSON, body }
            }
        };
    }
    match find(assets, admitted.path) {
        Some(asset) => {
            Response { status: 200, content_type: content_type(&asset.path), body: asset.bytes.clone() }
        }
        None if admitted.path.is_empty() => {
            Response { status: 200, content_type: TEXT, body: NOT_BUILT.as_bytes().to_vec() }
        }
        None => Response { status: 404, content_type: TEXT, body: b"there is no such file\n".to_vec() },
    }
}
