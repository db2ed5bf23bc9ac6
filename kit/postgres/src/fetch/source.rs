//! Where an archive comes from: `PLATFORM_MAVEN_URL`, else the mirror in this machine's Maven settings, else Maven
//! Central; and the proxies to use. Pure except for reading the two settings files.

use std::path::{Path, PathBuf};

use contract::settings::Kind;
use contract::{Settings, Variable};
use reqwest::{NoProxy, Proxy, Url};
use roxmltree::{Document, Node};

use crate::Error;

/// Base address of the repository.
pub const MAVEN_URL: Variable = Variable::new(
    "PLATFORM_MAVEN_URL",
    Kind::Url,
    None,
    "Base address of a Maven repository to fetch PostgreSQL from where this machine has none; absent: the mirror in Maven's own settings, else Maven Central",
);
/// Maven Central.
const CENTRAL: &str = "https://repo1.maven.org/maven2";
/// Maven Central's id in Maven's settings.
const CENTRAL_ID: &str = "central";
/// Machine-wide settings, where Maven's packages put them.
const OF_THE_MACHINE: [&str; 2] = ["/etc/maven/settings.xml", "/usr/share/maven/conf/settings.xml"];

/// A repository and the proxies to reach it.
#[derive(Clone, Debug)]
pub struct Source {
    /// Without a trailing slash.
    base: Url,
    /// Name and password for the repository.
    pub(super) login: Option<(String, String)>,
    pub(super) proxies: Vec<Proxy>,
}

impl Source {
    /// Reads the variables and Maven's settings.
    ///
    /// # Errors
    /// An invalid address, or a settings file that cannot be read.
    pub fn read(settings: &Settings) -> Result<Self, Error> {
        let proxies = proxies(settings)?;
        if let Some(address) = settings.raw(MAVEN_URL.name) {
            return Ok(Self { base: address_of(MAVEN_URL.name, address)?, login: None, proxies });
        }
        for path in files(settings) {
            if let Some(mirror) = mirror_in(&path, settings)? {
                let base = address_of(&path.display().to_string(), &mirror.address)?;
                return Ok(Self { base, login: mirror.login, proxies });
            }
        }
        Ok(Self { base: address_of(MAVEN_URL.name, CENTRAL)?, login: None, proxies })
    }

    /// The address of a file.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{}/{path}", self.base.as_str().trim_end_matches('/'))
    }
}

fn address_of(whose: &str, text: &str) -> Result<Url, Error> {
    let wrong = || Error::Source {
        text: format!(
            "{whose}: \"{text}\" is not the http:// or https:// address of a Maven repository, such as {CENTRAL}"
        ),
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    if matches!(url.scheme(), "http" | "https") { Ok(url) } else { Err(wrong()) }
}

/// The user's settings take precedence over the machine's.
fn files(settings: &Settings) -> Vec<PathBuf> {
    let own = settings.raw("HOME").map(|home| Path::new(home).join(".m2/settings.xml"));
    let files = own.into_iter().chain(OF_THE_MACHINE.map(PathBuf::from));
    files.filter(|path| path.is_file()).collect()
}

/// A repository that mirrors Maven Central.
#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    address: String,
    login: Option<(String, String)>,
}

fn mirror_in(path: &Path, settings: &Settings) -> Result<Option<Mirror>, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    mirror(&text, settings).map_err(|error| Error::Source {
        text: format!(
            "{} is not Maven's settings ({error}): fix it, or set {}",
            path.display(),
            MAVEN_URL.name
        ),
    })
}

fn mirror(text: &str, settings: &Settings) -> Result<Option<Mirror>, roxmltree::Error> {
    let document = Document::parse(text)?;
    let value = |node: Node<'_, '_>, name| child(node, name).map(|text| interpolated(&text, settings));
    let all = |name| document.descendants().filter(move |node| node.tag_name().name() == name);
    let Some(found) =
        all("mirror").find(|node| covers_central(&child(*node, "mirrorOf").unwrap_or_default()))
    else {
        return Ok(None);
    };
    let id = child(found, "id");
    let server = all("server").find(|node| id.is_some() && child(*node, "id") == id);
    let login = server.and_then(|node| Some((value(node, "username")?, value(node, "password")?)));
    Ok(value(found, "url").map(|address| Mirror { address, login }))
}

fn child(node: Node<'_, '_>, name: &str) -> Option<String> {
    let found = node.children().find(|child| child.tag_name().name() == name)?;
    found.text().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Matches `central`, `*` or `external:*`, in a list that does not exclude it again.
fn covers_central(pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split(',').map(str::trim).collect();
    let named = parts.iter().any(|part| [CENTRAL_ID, "*", "external:*"].contains(part));
    named && !parts.iter().any(|part| part.strip_prefix('!') == Some(CENTRAL_ID))
}

/// Expands `${env.NAME}` to the variable; like Maven, leaves one that is not set unchanged.
fn interpolated(text: &str, settings: &Settings) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${env.") {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            return out + "${env." + after;
        };
        match settings.raw(name) {
            Some(value) => out.push_str(value),
            None => out.extend(["${env.", name, "}"]),
        }
        rest = behind;
    }
    out + rest
}

/// Makes one kind of proxy from its address.
type MakeProxy = fn(&str) -> reqwest::Result<Proxy>;

/// The usual proxy variables, in either case; lower case takes precedence, as in curl.
fn proxies(settings: &Settings) -> Result<Vec<Proxy>, Error> {
    let either = |name: &str| settings.raw(name).or_else(|| settings.raw(&name.to_ascii_uppercase()));
    let except = either("no_proxy").and_then(NoProxy::from_string);
    let kinds: [(&str, MakeProxy); 3] = [
        ("http_proxy", |url| Proxy::http(url)),
        ("https_proxy", |url| Proxy::https(url)),
        ("all_proxy", |url| Proxy::all(url)),
    ];
    let mut proxies = Vec::new();
    for (name, make) in kinds {
        let Some(address) = either(name) else { continue };
        let proxy = make(address).map_err(|error| Error::Source {
            text: format!(
                "{name}: the value is not the address of a proxy such as http://proxy:3128: {error}"
            ),
        })?;
        proxies.push(proxy.no_proxy(except.clone()));
    }
    Ok(proxies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"<?xml version="1.0"?>
        <settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
          <servers>
            <server><id>other</id><username>x</username><password>y</password></server>
            <server><id>firm</id><username>${env.WHO}</username><password>p&amp;w</password></server>
          </servers>
          <mirrors>
            <mirror><id>jcenter</id><mirrorOf>jcenter</mirrorOf><url>https://no/</url></mirror>
            <mirror><id>firm</id><mirrorOf>*,!local</mirrorOf><url> https://maven.firm/repo/ </url></mirror>
          </mirrors>
        </settings>"#;

    #[test]
    fn a_mirror_is_read_with_its_login() {
        let settings = Settings::default().with("WHO", "alice");
        let found = mirror(SETTINGS, &settings).expect("well-formed").expect("a mirror");
        let login = Some(("alice".to_owned(), "p&w".to_owned()));
        assert_eq!(found, Mirror { address: "https://maven.firm/repo/".to_owned(), login });
        assert_eq!(mirror("<settings/>", &settings), Ok(None));
        assert!(mirror("<settings>", &settings).is_err());
    }

    #[test]
    fn mirrors_of_other_repositories_do_not_count() {
        for (pattern, expected) in [
            ("central", true),
            ("*", true),
            ("external:*", true),
            ("a, central", true),
            ("*,!central", false),
            ("jcenter", false),
            ("", false),
        ] {
            assert_eq!(covers_central(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn variables_in_settings_are_replaced_where_they_are_set() {
        let settings = Settings::default().with("A", "1");
        for (text, expected) in
            [("x${env.A}y${env.A}", "x1y1"), ("${env.B}", "${env.B}"), ("${env.A", "${env.A"), ("$", "$")]
        {
            assert_eq!(interpolated(text, &settings), expected);
        }
    }

    #[test]
    fn the_variable_goes_before_the_settings_and_central_is_last() {
        let home = std::env::temp_dir().join(format!("platform-maven-test-{}", std::process::id()));
        std::fs::create_dir_all(home.join(".m2")).expect("a folder");
        std::fs::write(home.join(".m2/settings.xml"), SETTINGS).expect("a file");
        let settings = Settings::default().with("HOME", home.to_string_lossy());
        let address = |settings: &Settings| Source::read(settings).expect("a source").address("a/b.jar");
        assert_eq!(address(&settings), "https://maven.firm/repo/a/b.jar");
        let chosen = settings.clone().with("PLATFORM_MAVEN_URL", "http://here:1/m");
        assert_eq!(address(&chosen), "http://here:1/m/a/b.jar");
        for wrong in ["here", "ftp://here", "file:///etc"] {
            let refused = Source::read(&settings.clone().with("PLATFORM_MAVEN_URL", wrong)).expect_err(wrong);
            assert!(
                refused.to_string().contains("PLATFORM_MAVEN_URL") && refused.to_string().contains(wrong)
            );
        }
        std::fs::remove_dir_all(&home).expect("it can be removed");
    }

    #[test]
    fn a_wrong_proxy_is_named() {
        let refused =
            Source::read(&Settings::default().with("HTTPS_PROXY", "http://")).expect_err("no proxy");
        assert!(refused.to_string().contains("https_proxy"), "{refused}");
    }
}
