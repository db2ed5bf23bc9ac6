//! Turns the bearer of a request into a [`Caller`]. Only this step creates one.

use std::sync::Arc;

use bearer::{Claims, VerifiedTokens};

use crate::pipeline::guard::Guarded;
use crate::pipeline::refusal::Refusal;

/// The subject of a request's valid token.
pub(crate) struct Caller<'a> {
    pub(crate) claims: Arc<Claims>,
    /// The token as received: the gateway's own questions about the subject carry it on.
    pub(crate) token: &'a [u8],
}

/// Verifies the request's token, or finds it in the cache of verified tokens.
pub(crate) async fn authenticate<'a>(
    tokens: &VerifiedTokens,
    guarded: &'a Guarded,
) -> Result<Caller<'a>, Refusal> {
    let token = bearer::raw_token_of(guarded.request.headers()).map_err(Refusal::Bearer)?;
    let claims = tokens.verify(token).await.map_err(Refusal::Bearer)?;
    Ok(Caller { claims, token })
}
