//! PROXY protocol version 2: a balancer that passes TLS through sends the client's address in front of it. Only peers
//! listed in `PLATFORM_PROXY_PROTOCOL` may send the header, and they must: anything else from them ends the connection.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const HEAD_BYTES: usize = 16;
/// The version in the high half of its byte, the command in the low half.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
/// Both addresses and ports.
const IPV4_BYTES: usize = 12;
const IPV6_BYTES: usize = 36;
/// Addresses and a few extensions, TLS details among them; a balancer sends some hundred bytes.
const MAX_BYTES: usize = 2_048;

/// Reads exactly the header and returns the client's address, or `peer` if the balancer speaks for itself.
pub(crate) async fn client<S: AsyncRead + Unpin>(stream: &mut S, peer: SocketAddr) -> Result<SocketAddr> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let [signature @ .., command, family, high, low] = head;
    if signature != SIGNATURE {
        return Err(wrong("not a PROXY header of version 2"));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_BYTES {
        return Err(wrong("a PROXY header that is too long"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    match command {
        LOCAL => Ok(peer),
        PROXY => source(family, &rest).ok_or_else(|| wrong("a PROXY header without an address")),
        _ => Err(wrong("a PROXY header of another version or command")),
    }
}

fn source(family: u8, bytes: &[u8]) -> Option<SocketAddr> {
    let (address, port): (IpAddr, &[u8]) = match family {
        TCP_OVER_IPV4 => {
            let bytes = bytes.first_chunk::<IPV4_BYTES>()?;
            (Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(), bytes.get(8..10)?)
        }
        TCP_OVER_IPV6 => {
            let bytes = bytes.first_chunk::<IPV6_BYTES>()?;
            (Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(), bytes.get(32..34)?)
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_be_bytes(*port.first_chunk::<2>()?)))
}

fn wrong(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "127.0.0.1:4711";

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    async fn read(bytes: &[u8]) -> (Option<String>, usize) {
        let mut rest = bytes;
        let client = client(&mut rest, PEER.parse().expect("an address")).await;
        (client.ok().map(|address| address.to_string()), rest.len())
    }

    #[tokio::test]
    async fn the_client_is_who_the_balancer_says_and_no_byte_of_it_is_taken() {
        let four = [203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x34, 1, 187];
        let mut six = [0; IPV6_BYTES];
        six[..2].copy_from_slice(&[0x20, 0x01]);
        six[15] = 9;
        six[32..34].copy_from_slice(&[0, 80]);
        for (bytes, address) in [
            (header(PROXY, TCP_OVER_IPV4, &four), "203.0.113.9:4660"),
            (header(PROXY, TCP_OVER_IPV4, &[&four[..], &[4, 0, 1, 0]].concat()), "203.0.113.9:4660"),
            (header(PROXY, TCP_OVER_IPV6, &six), "[2001::9]:80"),
            (header(LOCAL, 0, &[]), PEER),
            (header(LOCAL, TCP_OVER_IPV4, &[0; MAX_BYTES]), PEER),
        ] {
            assert_eq!(read(&[&bytes[..], b"TLS"].concat()).await, (Some(address.to_owned()), 3));
        }
    }

    #[tokio::test]
    async fn anything_else_is_no_header() {
        let four = [0; IPV4_BYTES];
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 1 2\r\n".to_vec(),
            header(PROXY, TCP_OVER_IPV4, &four[1..]),
            header(PROXY, TCP_OVER_IPV6, &four),
            header(PROXY, 0, &four),
            header(PROXY, 0x12, &four),
            header(0x11, TCP_OVER_IPV4, &four),
            header(0x22, TCP_OVER_IPV4, &four),
            header(LOCAL, 0, &[0; MAX_BYTES + 1]),
            header(PROXY, TCP_OVER_IPV4, &four)[..20].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(read(&bytes).await.0, None, "{bytes:?}");
        }
    }
}
