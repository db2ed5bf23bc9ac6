//! The bearer of a request becomes a [`Caller`]. Only this step makes one.

use bearer::{Claims, Verifier};

use super::guard::Guarded;
use super::refusal::Refusal;

/// Whoever signed the request with a valid token.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) claims: Claims,
}

/// Verifies the request's token.
pub(crate) async fn authenticate(verifier: &Verifier, guarded: &Guarded) -> Result<Caller, Refusal> {
    let token = bearer::token_of(guarded.request.headers()).map_err(Refusal::Bearer)?;
    let claims = verifier.verify(token).await.map_err(Refusal::Bearer)?;
    Ok(Caller { claims })
}
