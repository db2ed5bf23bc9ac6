//! The full-text index of tickets, searched from the newest ticket on.
//!
//! PostgreSQL's text index knows neither companies nor order: for a common word it returns every match at once. So each
//! word of a ticket is stored with a prefix for its company and its segment, which covers 4096 consecutive ticket
//! numbers. A search queries one segment after the other, newest first, until it has enough. A ticket's words and
//! number never change.
//!
//! Every ASCII punctuation character counts as a space, in texts and in searches. PostgreSQL's parser would take
//! `server01.example.com` for one word and skip what looks like a tag, and on some punctuation its time grows with the
//! square of the text.
//!
//! The prefix is the last eight digits of the company's id, a dot, the segment in hexadecimal and a dot. It only makes
//! a search fast, so companies that share it do no harm. Only the first 400 characters of a word are stored, which is
//! more than a search can contain.

use service::{ApiError, CompanyTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::TicketId;

/// Words that a ticket must contain, all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    texts: Vec<String>,
    /// For each word, whether it also matches as the beginning of a longer word.
    beginnings: Vec<bool>,
}

impl Words {
    /// Splits a text into distinct words; a word that is not a number also matches as the beginning of a longer one.
    /// `None` when the text is blank. A text of punctuation alone has no words, and no ticket contains it.
    pub(super) fn of(text: &str) -> Option<Self> {
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let text_of_words = without_punctuation(text);
        let mut texts: Vec<String> = Vec::new();
        for word in text_of_words.split_whitespace() {
            if !texts.iter().any(|known| known == word) {
                texts.push(word.to_owned());
            }
        }
        let beginnings = texts.iter().map(|word| !is_number(word)).collect();
        (!text.trim().is_empty()).then_some(Self { texts, beginnings })
    }
}

/// As the migration 0007 does for the tickets before it.
fn without_punctuation(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_punctuation(), " ")
}

/// A `tsquery` in which U+0001 stands for a segment's prefix; no word contains it.
pub(super) struct WordQuery(String);

impl WordQuery {
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// A ticket that contains the words.
pub(super) struct Hit {
    pub(super) ticket: Uuid,
    pub(super) number: i64,
}

/// Writes the words of a new ticket.
pub(super) async fn insert(
    tx: &mut CompanyTx,
    id: TicketId,
    number: i64,
    (title, description): (&str, &str),
) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO helpdesk.ticket_words(ticket_id, company_id, number, words)
         SELECT $1::uuid, $2::uuid, $3::bigint, array_to_tsvector(ARRAY(
           SELECT right($2::text, 8) || '.' || to_hex($3 / 4096) || '.' || left(word.lexeme, 400)
             FROM unnest(to_tsvector('simple', $3 || ' ' || $4::text || ' ' || $5::text)) AS word))",
        id.as_uuid(),
        tx.company().as_uuid(),
        number,
        without_punctuation(title),
        without_punctuation(description)
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Prepares the transaction of a search, and builds the index query for its words; `None` without words and when they
/// contain no lexeme, as in `&`. The statements of a search are planned for their values each time, because the best index
/// depends on the filters, and no table is read in full. A statement that takes a second is given up (503), so that
/// texts which are made to be slow do not keep others from their turn.
pub(super) async fn query(conn: &mut PgConnection, words: Option<&Words>) -> sqlx::Result<Option<WordQuery>> {
    let (texts, beginnings) =
        words.map(|words| (&words.texts[..], &words.beginnings[..])).unwrap_or_default();
    let query = sqlx::query!(
        r"SELECT set_config('plan_cache_mode', 'force_custom_plan', true) AS planned,
             set_config('enable_seqscan', 'off', true) AS scanned, set_config('jit', 'off', true) AS compiled,
             set_config('statement_timeout', '1000', true) AS timed,
             (SELECT string_agg('''' || E'\x01' || replace(replace(word.lexeme, '\', '\\'), '''', '''''') || ''''
                   || CASE WHEN asked.begins THEN ':*' ELSE '' END, ' & ')
                FROM unnest($1::text[], $2::bool[]) AS asked(text, begins)
               CROSS JOIN LATERAL unnest(to_tsvector('simple', asked.text)) AS word) AS query",
        texts,
        beginnings
    );
    Ok(query.fetch_one(conn).await?.query.map(WordQuery))
}

/// Finds the newest tickets of the company that contain the words, newest first. The nested loop keeps the order of the
/// segments.
pub(super) async fn newest(
    conn: &mut PgConnection,
    company: Uuid,
    query: &WordQuery,
    limit: i64,
) -> sqlx::Result<Vec<Hit>> {
    let hits = sqlx::query_as!(
        Hit,
        r"SELECT hit.ticket_id AS ticket, hit.number
            FROM helpdesk.ticket_counters c
           CROSS JOIN LATERAL generate_series(c.last_number / 4096, 0, -1) AS segment
           CROSS JOIN LATERAL (
             SELECT w.ticket_id, w.number FROM helpdesk.ticket_words w
              WHERE w.words @@ replace($2, E'\x01', right($1::uuid::text, 8) || '.' || to_hex(segment) || '.')::tsquery
                AND w.company_id = $1
              ORDER BY w.number DESC LIMIT $3) AS hit
           WHERE c.company_id = $1 LIMIT $3",
        company,
        query.0,
        limit
    );
    hits.fetch_all(conn).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_begins_another_unless_it_is_a_number() {
        assert_eq!(Words::of("  "), None);
        let words = Words::of("printer  #12 3 4x").expect("words");
        assert_eq!(words.texts, ["printer", "12", "3", "4x"]);
        assert_eq!(words.beginnings, [true, false, false, true]);
        assert_eq!(Words::of("server01.example.com").expect("words").texts, ["server01", "example", "com"]);
        assert_eq!(Words::of("a b a").expect("words").texts, ["a", "b"]);
        assert_eq!(Words::of(" & ").expect("a text").texts, [""; 0]);
    }
}
