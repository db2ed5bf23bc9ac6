//! `platform doctor` against a running platform: first everything fits; then each item is broken in turn, and doctor
//! names it with the reason.

use crate::harness::Together;

/// The items that doctor checks, when everything fits.
const FITS: [&str; 9] = [
    "domain",
    "certificate",
    "IDP_ISSUER_URL",
    "issuer through the edge",
    "issuer at the provider",
    "signing keys",
    "redirect list",
    "administration client",
    "audience",
];

#[tokio::test]
async fn the_doctor_says_what_does_not_fit() {
    let mut platform = Together::start("doctor");
    let (code, said) = examine(&platform, &[]);
    assert_eq!(code, 0, "{said}");
    for what in FITS {
        assert!(said.contains(&format!("fits   {what}: ")), "{what} in\n{said}");
    }
    assert!(said.contains("fits   clock: "), "{said}");
    let other = format!("127.0.0.1:{}", platform.base_url.rsplit(':').next().expect("a port"));
    for (name, value, words) in [
        (
            "IDP_ISSUER_URL",
            "https://other.example/realms/platform",
            "WRONG  IDP_ISSUER_URL: is https://other.example",
        ),
        (
            "PLATFORM_DOMAIN",
            &other,
            "WRONG  issuer through the edge: the provider calls itself \"https://localhost:",
        ),
        ("PLATFORM_DOMAIN", "platform.example", "WRONG  domain: https://platform.example is public"),
        ("PLATFORM_DOMAIN", "localhost:1", "WRONG  certificate: https://localhost:1 cannot be reached"),
        ("PLATFORM_REALM", "other", "WRONG  issuer at the provider: http://127.0.0.1:"),
        ("IDP_AUDIENCE", "other-api", "and the platform wants other-api among them"),
        (
            "PLATFORM_EXTRA_ORIGINS",
            "https://app.example",
            "WRONG  redirect list: https://app.example/ is refused (400)",
        ),
        ("IDP_JWKS_URL", "http://127.0.0.1:9/certs", "WRONG  signing keys: "),
        (
            "PLATFORM_IDP_ADMIN_CLIENT_SECRET",
            "not the secret",
            "WRONG  administration client: the provider gives platform-admin no token",
        ),
    ] {
        let (code, said) = examine(&platform, &[(name, value)]);
        assert_eq!(code, 1, "{name}={value}: {said}");
        assert!(said.contains(words), "{name}={value}: {words} in\n{said}");
    }
    untrusted(&platform);
    platform.stop();
    let (code, said) = examine(&platform, &[]);
    assert_eq!((code, said.contains("WRONG  certificate: ")), (1, true), "{said}");
    let (code, _) = examine(&platform, &[("PLATFORM_DOMAIN", "https://no-host/")]);
    assert_eq!(code, 2, "a bad value is not a finding");
}

/// Without the development CA, the development certificate is not trusted.
fn untrusted(platform: &Together) {
    let file = |name: &str| platform.data().join("certs").join(name).display().to_string();
    let (chain, key) = (file("edge.pem"), file("edge.key"));
    let (code, said) = examine(platform, &[("PLATFORM_TLS_CERT", &chain), ("PLATFORM_TLS_KEY", &key)]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is signed by nobody whom this machine trusts"), "{said}");
}

fn examine(platform: &Together, more: &[(&str, &str)]) -> (i32, String) {
    let output = platform.output_with("doctor", more);
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().expect("it ended by itself"), said)
}
