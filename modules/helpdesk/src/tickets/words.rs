//! The words of tickets, from the newest ticket on.
//!
//! PostgreSQL's index of words knows neither companies nor order: what it finds of a common word it finds all at once. So
//! the words of a ticket are stored behind a sign of their company and of their segment, which is 4096 successive numbers
//! of tickets: a search asks one segment after the other, the newest first, until it has enough. A ticket's words and its
//! number never change.
//!
//! The sign is the last eight digits of the company's id, a point, the segment in hexadecimal digits, a point; it only makes
//! a search fast, so companies that share it do no harm. Of a longer word its first 400 characters are stored, more than a
//! search can hold.

use service::{ApiError, CompanyTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::TicketId;

/// Words that a ticket must have, each of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    texts: Vec<String>,
    /// Whether a longer word may begin with it.
    beginnings: Vec<bool>,
}

impl Words {
    /// A word that is not a number may be the beginning of a longer one. `None`: no word.
    pub(super) fn of(text: &str) -> Option<Self> {
        let is_number = |word: &str| word.trim_start_matches('#').bytes().all(|byte| byte.is_ascii_digit());
        let texts: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let beginnings = texts.iter().map(|word| !is_number(word)).collect();
        (!texts.is_empty()).then_some(Self { texts, beginnings })
    }
}

/// A `tsquery` in which U+0001 stands for the sign of a segment; no word holds it.
pub(super) struct WordQuery(String);

/// A ticket that has the words.
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
        title,
        description
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// How the index is asked for these words; `None`: there is no word in them, as in `&`.
pub(super) async fn query(conn: &mut PgConnection, words: &Words) -> sqlx::Result<Option<WordQuery>> {
    let query = sqlx::query_scalar!(
        r"SELECT string_agg('''' || E'\x01' || replace(replace(word.lexeme, '\', '\\'), '''', '''''') || ''''
                   || CASE WHEN asked.begins THEN ':*' ELSE '' END, ' & ')
            FROM unnest($1::text[], $2::bool[]) AS asked(text, begins)
           CROSS JOIN LATERAL unnest(to_tsvector('simple', asked.text)) AS word",
        &words.texts,
        &words.beginnings
    );
    Ok(query.fetch_one(conn).await?.map(WordQuery))
}

/// The newest tickets of the company that have the words, the newest first: in the order of the segments, which a nested
/// loop keeps.
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

/// Those of these tickets that have the words, in the same order.
pub(super) async fn within(
    conn: &mut PgConnection,
    company: Uuid,
    query: &WordQuery,
    tickets: &[Uuid],
    limit: i64,
) -> sqlx::Result<Vec<Uuid>> {
    let found = sqlx::query_scalar!(
        r#"SELECT asked.id AS "id!" FROM unnest($3::uuid[]) WITH ORDINALITY AS asked(id, place)
            CROSS JOIN LATERAL (SELECT w.words, w.number FROM helpdesk.ticket_words w
              WHERE w.ticket_id = asked.id AND w.company_id = $1 OFFSET 0) AS w
            WHERE w.words @@ replace($2, E'\x01', right($1::uuid::text, 8) || '.' || to_hex(w.number / 4096) || '.')::tsquery
            ORDER BY asked.place LIMIT $4"#,
        company,
        query.0,
        tickets,
        limit
    );
    found.fetch_all(conn).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_begins_another_unless_it_is_a_number() {
        assert_eq!(Words::of("  "), None);
        let words = Words::of("printer  #12 3 4x").expect("words");
        assert_eq!(words.texts, ["printer", "#12", "3", "4x"]);
        assert_eq!(words.beginnings, [true, false, false, true]);
    }
}
