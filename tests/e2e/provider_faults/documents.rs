//! A server of key documents, valid and invalid. It answers any path; requests that follow a redirect are counted
//! separately.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Size of the document that is too large.
const HUGE: usize = 10 << 20;
/// Silence ends on its own after this; a client that waits this long has no timeout.
const SILENCE: Duration = Duration::from_mins(1);

/// The response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Good,
    Garbage,
    Empty,
    Huge,
    Redirect,
    Silence,
}

/// The server.
#[derive(Clone)]
pub(super) struct Documents {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    shape: Shape,
    keys: Value,
    fetches: usize,
    followed: usize,
    longest_silence: Duration,
    most_sent: usize,
}

impl Documents {
    pub(super) async fn serve(keys: Value) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}/certs", listener.local_addr().expect("bound"));
        let state = State {
            shape: Shape::Good,
            keys,
            fetches: 0,
            followed: 0,
            longest_silence: Duration::ZERO,
            most_sent: 0,
        };
        let documents = Self { url, state: Arc::new(Mutex::new(state)) };
        let serving = documents.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let documents = serving.clone();
                tokio::spawn(async move { documents.answer(socket).await });
            }
        });
        documents
    }

    pub(super) fn answer_with(&self, shape: Shape) {
        self.state().shape = shape;
    }

    pub(super) fn replace(&self, keys: Value) {
        self.state().keys = keys;
    }

    pub(super) fn fetches(&self) -> usize {
        self.state().fetches
    }

    pub(super) fn followed(&self) -> usize {
        self.state().followed
    }

    pub(super) fn longest_silence(&self) -> Duration {
        self.state().longest_silence
    }

    pub(super) fn most_sent(&self) -> usize {
        self.state().most_sent
    }

    /// The figures so far, as text.
    pub(super) fn told(&self) -> String {
        let state = self.state();
        format!(
            "{} fetches, longest silence {:?}, most sent {} KiB, redirects followed {}",
            state.fetches,
            state.longest_silence,
            state.most_sent >> 10,
            state.followed
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    async fn answer(&self, mut socket: TcpStream) {
        let mut head = vec![0; 4_096];
        let Ok(read) = socket.read(&mut head).await else { return };
        let (shape, good) = {
            let mut state = self.state();
            state.fetches += 1;
            state.followed += usize::from(head[..read].starts_with(b"GET /elsewhere"));
            (state.shape, state.keys.to_string())
        };
        let document = match shape {
            Shape::Good => good,
            Shape::Garbage => "<html>no keys here</html>".to_owned(),
            Shape::Empty => r#"{"keys":[]}"#.to_owned(),
            Shape::Huge => return self.send_too_much(socket).await,
            Shape::Redirect => {
                let answer = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                return drop(socket.write_all(answer.as_bytes()).await);
            }
            Shape::Silence => return self.stay_silent(socket).await,
        };
        let length = document.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        drop(socket.write_all(format!("{head}{document}").as_bytes()).await);
    }

    async fn send_too_much(&self, mut socket: TcpStream) {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {HUGE}\r\n\r\n");
        let (mut sent, piece) = (0, vec![b' '; 16 << 10]);
        if socket.write_all(head.as_bytes()).await.is_ok() {
            while sent < HUGE && socket.write_all(&piece).await.is_ok() {
                sent += piece.len();
            }
        }
        let mut state = self.state();
        state.most_sent = state.most_sent.max(sent);
    }

    async fn stay_silent(&self, mut socket: TcpStream) {
        let begun = Instant::now();
        drop(tokio::time::timeout(SILENCE, socket.read(&mut [0; 16])).await);
        let mut state = self.state();
        state.longest_silence = state.longest_silence.max(begun.elapsed());
    }
}
