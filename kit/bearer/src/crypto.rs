//! Signatures: the three accepted algorithms over ring, installed as jsonwebtoken's process-wide provider. Signing and
//! key tools return an error: nothing here makes tokens.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};

/// Symmetric algorithms and `none` are excluded on purpose: a public key must never be used as a secret.
pub(crate) const ACCEPTED: [Algorithm; 3] = [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: refuse_to_sign,
    verifier_factory: verifier_of,
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(ErrorKind::UnsupportedAlgorithm.into()),
        rsa_pub_components_from_public_key: |_| Err(ErrorKind::UnsupportedAlgorithm.into()),
        ec_pub_components_from_private_key: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
        ed_pub_components_from_private_key: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
        compute_digest: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    },
};

/// Installs this provider for the process. jsonwebtoken panics when it decodes without a provider, so every verifier
/// calls this when it is made.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if PROVIDER.install_default().is_err() {
            tracing::warn!("keeping the token signature provider that was installed before");
        }
    });
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is jsonwebtoken's")]
fn refuse_to_sign(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is jsonwebtoken's")]
fn verifier_of(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    match (algorithm, key.kind()) {
        (Algorithm::RS256 | Algorithm::PS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            let parameters = if *algorithm == Algorithm::RS256 {
                &RSA_PKCS1_2048_8192_SHA256
            } else {
                &RSA_PSS_2048_8192_SHA256
            };
            let key = RsaPublicKeyComponents { n: n.clone(), e: e.clone() };
            Ok(Box::new(Rsa { algorithm: *algorithm, parameters, key }))
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
            Ok(Box::new(P256 { point: point.clone() }))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Rsa {
    algorithm: Algorithm,
    parameters: &'static RsaParameters,
    key: RsaPublicKeyComponents<Vec<u8>>,
}

impl JwtVerifier for Rsa {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Rsa {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        self.key.verify(self.parameters, message, signature).map_err(|_| SignatureError::new())
    }
}

struct P256 {
    point: Vec<u8>,
}

impl JwtVerifier for P256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

impl Verifier<Vec<u8>> for P256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point)
            .verify(message, signature)
            .map_err(|_| SignatureError::new())
    }
}
