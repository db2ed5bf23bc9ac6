//! Searches of a company's members. A search counts at most one match more than it shows. Up to that number, it sorts the
//! matches; beyond it, it reads the page in the order of names.
//!
//! The index `members_letters` finds the members of all companies that have every pair of letters of a text. It costs what the
//! rarest pair of the text costs, whereas an index of trigrams reads every member for a text of frequent ones, such as
//! `test ex` where addresses end in `@example.test`.

use contract::id::CompanyId;
use contract::page::PageRequest;
use service::Reads;
use sqlx::PgConnection;

use super::rules::{MAX_FOUND, Text};
use super::store::{CountedRow, Row};

/// Number of members up to which a search scans the company ([`scanned`]). Above it, the index is cheaper, although it finds the
/// members of all companies.
pub(super) const MAX_SCANNED: i64 = 5_000;

/// First names of the company that tell whether half of its members match.
const SAMPLE: i64 = 100;

/// Most names that are read to count the matches of such a text: reading them is cheaper than the index.
const MAX_COUNTED: i64 = 2 * MAX_FOUND;

/// Most names that are read for a page.
const MAX_NAMES: i64 = 100_000;

/// The part of a page that shows matches of a frequent text.
#[derive(Clone, Copy)]
struct Window {
    offset: i64,
    limit: i64,
}

impl Window {
    /// `None` for a page past the most matches that are shown.
    fn of(request: PageRequest) -> Option<Self> {
        let offset = request.offset();
        let limit = request.limit().min(MAX_FOUND - offset);
        (limit > 0).then_some(Self { offset, limit })
    }

    fn is_filled_by(self, rows: &[Row]) -> bool {
        i64::try_from(rows.len()) == Ok(self.limit)
    }
}

/// Returns the page of a text in a large company and the number of matches, at most one more than [`MAX_FOUND`].
pub(super) async fn page(
    conn: &mut PgConnection,
    company: CompanyId,
    text: &Text,
    request: PageRequest,
) -> sqlx::Result<(Vec<Row>, i64)> {
    let Some(window) = Window::of(request) else {
        return Ok((Vec::new(), count_indexed(conn, company, text, MAX_FOUND + 1).await?));
    };
    if !is_frequent(&mut *conn, company, text).await? {
        let (rows, total) = sorted(&mut *conn, company, text, window, MAX_FOUND + 1).await?;
        if total <= MAX_FOUND {
            return Ok((rows, total));
        }
    }
    let total = MAX_FOUND + 1;
    let named = among_names(&mut *conn, company, &text.pattern, window).await?;
    if window.is_filled_by(&named) {
        return Ok((named, total));
    }
    let (rows, _) = sorted(conn, company, text, window, i64::MAX).await?;
    Ok((rows, total))
}

/// As [`page`], for a small company: one statement reads every member, so that it needs no transaction.
pub(super) async fn scanned(
    reads: &Reads,
    company: CompanyId,
    Text { pattern, .. }: &Text,
    request: PageRequest,
) -> sqlx::Result<(Vec<Row>, i64)> {
    let rows = sqlx::query_as!(
        CountedRow,
        r#"SELECT id, display_name, email, user_id IS NOT NULL AS "has_linked_user!", count(*) OVER () AS "total!"
             FROM org.members WHERE company_id = $1 AND is_active AND (display_name ILIKE $2 OR email ILIKE $2)
            ORDER BY display_name COLLATE "C", id LIMIT $3 OFFSET $4"#,
        company.as_uuid(),
        pattern,
        request.limit(),
        request.offset(),
    )
    .fetch_all(reads)
    .await?;
    let total = match rows.first() {
        Some(row) => row.total,
        // A page past the end has no row to carry the total.
        None => count_scanned(reads, company, pattern).await?,
    };
    Ok((rows.into_iter().map(Row::from).collect(), total))
}

async fn count_scanned(reads: &Reads, company: CompanyId, pattern: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM org.members
            WHERE company_id = $1 AND is_active AND (display_name ILIKE $2 OR email ILIKE $2)"#,
        company.as_uuid(),
        pattern,
    )
    .fetch_one(reads)
    .await
}

/// Whether there are more matches than are shown, judged by the first names alone: false unless half of them match.
async fn is_frequent(conn: &mut PgConnection, company: CompanyId, text: &Text) -> sqlx::Result<bool> {
    Ok(count_named(&mut *conn, company, &text.pattern, SAMPLE).await? * 2 >= SAMPLE
        && count_named(conn, company, &text.pattern, MAX_COUNTED).await? > MAX_FOUND)
}

/// Counts the matches among the first `names` in the order of lists.
async fn count_named(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
    names: i64,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM (
             SELECT FROM (
               SELECT display_name, email FROM org.members WHERE company_id = $1 AND is_active
               ORDER BY display_name COLLATE "C", id LIMIT $3) named
              WHERE display_name ILIKE $2 OR email ILIKE $2 LIMIT $4) found"#,
        company.as_uuid(),
        pattern,
        names,
        MAX_FOUND + 1,
    )
    .fetch_one(conn)
    .await
}

/// Counts at most `limit` matches with the index `members_letters`; the query must repeat the index's expression exactly. A
/// single letter or pair needs no `ILIKE`.
async fn count_indexed(
    conn: &mut PgConnection,
    company: CompanyId,
    text: &Text,
    limit: i64,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM (
             SELECT FROM org.members
              WHERE company_id = $1 AND is_active
                AND org.letters_and_pairs(display_name || E'\n' || coalesce(email, '')) @>
                    CASE WHEN $3 THEN ARRAY[lower($2)] ELSE ARRAY(
                      SELECT pair FROM unnest(org.letters_and_pairs($2)) AS pair WHERE char_length(pair) = 2) END
                AND ($3 OR display_name ILIKE $4 OR email ILIKE $4)
              LIMIT $5) found"#,
        company.as_uuid(),
        text.typed,
        text.is_exact,
        text.pattern,
        limit,
    )
    .fetch_one(conn)
    .await
}

/// Searches the first names in the order of lists, until the page is full. A text has no line feed, so it is in a name or an
/// address.
async fn among_names(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
    window: Window,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id AS "id!", display_name AS "display_name!", email, user_id IS NOT NULL AS "has_linked_user!"
             FROM (SELECT id, display_name, email, user_id FROM org.members WHERE company_id = $1 AND is_active
                   ORDER BY display_name COLLATE "C", id LIMIT $5) named
            WHERE display_name ILIKE $2 OR email ILIKE $2
            ORDER BY display_name COLLATE "C", id LIMIT $3 OFFSET $4"#,
        company.as_uuid(),
        pattern,
        window.limit,
        window.offset,
        MAX_NAMES,
    )
    .fetch_all(conn)
    .await
}

/// Sorts the matches, any `limit` of them, and returns the page and their number. The inner `LIMIT` also keeps the planner
/// from walking through every member by name to fill a page.
async fn sorted(
    conn: &mut PgConnection,
    company: CompanyId,
    text: &Text,
    window: Window,
    limit: i64,
) -> sqlx::Result<(Vec<Row>, i64)> {
    let rows = sqlx::query_as!(
        CountedRow,
        r#"SELECT id AS "id!", display_name AS "display_name!", email, user_id IS NOT NULL AS "has_linked_user!",
                  count(*) OVER () AS "total!"
             FROM (SELECT id, display_name, email, user_id FROM org.members
                    WHERE company_id = $1 AND is_active
                      AND org.letters_and_pairs(display_name || E'\n' || coalesce(email, '')) @>
                          CASE WHEN $3 THEN ARRAY[lower($2)] ELSE ARRAY(
                            SELECT pair FROM unnest(org.letters_and_pairs($2)) AS pair WHERE char_length(pair) = 2) END
                      AND ($3 OR display_name ILIKE $4 OR email ILIKE $4) LIMIT $7) found
            ORDER BY display_name COLLATE "C", id LIMIT $5 OFFSET $6"#,
        company.as_uuid(),
        text.typed,
        text.is_exact,
        text.pattern,
        window.limit,
        window.offset,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let total = match rows.first() {
        Some(row) => row.total,
        // A page past the end has no row to carry the total.
        None => count_indexed(conn, company, text, limit).await?,
    };
    Ok((rows.into_iter().map(Row::from).collect(), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(page: u32, page_size: u32) -> Option<(i64, i64)> {
        let window = Window::of(PageRequest { page, page_size });
        window.map(|window| (window.offset, window.limit))
    }

    #[test]
    fn a_page_shows_no_match_past_the_most_that_are_shown() {
        assert_eq!(window(1, 100), Some((0, 100)));
        assert_eq!(window(100, 100), Some((9_900, 100)));
        assert_eq!(window(101, 100), None);
        assert_eq!(window(334, 30), Some((9_990, 10)));
    }
}
