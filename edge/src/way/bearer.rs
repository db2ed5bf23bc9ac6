//! The bearer of a request becomes a [`Caller`]. Only this step makes one.

use std::sync::Arc;

use bearer::{Claims, VerifiedTokens};

use super::guard::Guarded;
use super::refusal::Refusal;

/// Whoever signed the request with a valid token.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) claims: Arc<Claims>,
}

/// Verifies the request's token, or knows it from before.
pub(crate) async fn authenticate(tokens: &VerifiedTokens, guarded: &Guarded) -> Result<Caller, Refusal> {
    let token = bearer::raw_token_of(guarded.request.headers()).map_err(Refusal::Bearer)?;
    let claims = tokens.verify(token).await.map_err(Refusal::Bearer)?;
    Ok(Caller { claims })
}
