//! A scripted provider: makes keys and tokens, and answers the JWKS address as each test requires.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// One of the provider's key pairs.
pub(crate) enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl Key {
    pub(crate) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).expect("an RSA key"))
    }

    pub(crate) fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("an EC key"))
    }

    /// The public half as the provider publishes it.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(pair) => {
                // PKCS #1 of a 2048-bit key: 8 bytes of headers, 0 and 256 bytes of modulus, a 2-byte header, 3 bytes
                // of exponent.
                let der = pair.public_key().as_ref();
                let (modulus, exponent) = (&der[8..265], &der[267..270]);
                json!({"kid": kid, "kty": "RSA", "use": "sig", "n": encode(modulus), "e": encode(exponent)})
            }
            Self::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kid": kid, "kty": "EC", "crv": "P-256", "use": "sig", "x": encode(x), "y": encode(y)})
            }
        }
    }

    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.sign(message.as_bytes(), header["alg"] == "PS256");
        format!("{message}.{}", encode(signature))
    }

    fn sign(&self, message: &[u8], pss: bool) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding =
                    if pss { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &random, message, &mut signature).expect("a signature");
                signature
            }
            Self::Ec(pair) => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
        }
    }
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The provider's answer.
#[derive(Clone)]
pub(crate) enum Answer {
    Keys(Vec<Value>),
    Raw(StatusCode, Bytes),
    RedirectTo(String),
    Hang,
}

/// The provider's JWKS address, answering until it is dropped.
pub(crate) struct Provider {
    port: u16,
    answer: Arc<Mutex<Answer>>,
    fetched: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

impl Provider {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on(listener, answer)
    }

    pub(crate) fn on(listener: TcpListener, answer: Answer) -> Self {
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(Mutex::new(answer));
        let (count, fetched) = watch::channel(0);
        let mut server = JoinSet::new();
        server.spawn(serve(listener, Arc::clone(&answer), Arc::new(count)));
        Self { port, answer, fetched, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/certs", self.port)
    }

    pub(crate) fn answer_with(&self, answer: Answer) {
        *self.answer.lock().expect("not poisoned") = answer;
    }

    pub(crate) fn fetches(&self) -> usize {
        *self.fetched.borrow()
    }

    /// Waits until the provider has been asked `count` times.
    pub(crate) async fn fetched(&self, count: usize) {
        self.fetched.clone().wait_for(|fetched| *fetched >= count).await.expect("the server runs");
    }
}

async fn serve(listener: TcpListener, answer: Arc<Mutex<Answer>>, count: Arc<watch::Sender<usize>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
        connections.spawn(async move {
            let service = service_fn(|_| {
                let present = answer.lock().expect("not poisoned").clone();
                count.send_modify(|fetched| *fetched += 1);
                respond(present)
            });
            // Some tests' clients cut the connection on purpose.
            let _ended = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn respond(answer: Answer) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = Response::builder();
    let response = match answer {
        Answer::Keys(keys) => response.body(json!({ "keys": keys }).to_string().into()),
        Answer::Raw(status, body) => response.status(status).body(body.into()),
        Answer::RedirectTo(target) => response.status(302).header("location", target).body(Full::default()),
        Answer::Hang => std::future::pending().await,
    };
    Ok(response.expect("a response"))
}
