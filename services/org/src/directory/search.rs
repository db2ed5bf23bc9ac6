//! Searches of a company's members. The matches are counted, at most one more than are shown, and the page is read in the
//! order of names where it is likely to be near; otherwise the matches are sorted.

use contract::id::CompanyId;
use contract::page::PageRequest;
use sqlx::PgConnection;

use super::rules::{Index, MAX_FOUND, Text};
use super::store::{CountedRow, Row};

/// Number of members up to which a search for a text without a trigram scans the company. Above it, the index is cheaper,
/// although the index finds the members of all companies that have these letters.
const MAX_SCANNED: i64 = 5_000;

/// Most names that are read for a page before the matches are sorted instead.
const MAX_NAMES: i64 = 100_000;

/// Where a page of the matches lies.
#[derive(Clone, Copy)]
struct Window {
    offset: i64,
    limit: i64,
}

impl Window {
    /// The part of a page that shows matches, if any.
    fn of(request: PageRequest, total: i64) -> Option<Self> {
        let offset = request.offset();
        let limit = request.limit().min(total.min(MAX_FOUND) - offset);
        (limit > 0).then_some(Self { offset, limit })
    }

    /// How many names from the first one hold the page, if matches are spread evenly, doubled in case they are not. `None` if
    /// reading those is dearer than sorting all matches.
    fn names_to_read(self, members: i64, total: i64) -> Option<i64> {
        let names = members.saturating_mul(self.offset + self.limit).saturating_mul(2) / total;
        if total > MAX_FOUND {
            return Some(names.min(MAX_NAMES));
        }
        (names <= total).then_some(names)
    }

    fn is_filled_by(self, rows: &[Row]) -> bool {
        i64::try_from(rows.len()) == Ok(self.limit)
    }
}

/// Returns the page of a text in a company with this many active members, and the number of matches, at most one more than
/// [`MAX_FOUND`].
pub(super) async fn page(
    conn: &mut PgConnection,
    company: CompanyId,
    text: &Text,
    members: i64,
    request: PageRequest,
) -> sqlx::Result<(Vec<Row>, i64)> {
    let total = match text.index {
        Index::Letters { .. } if members <= MAX_SCANNED => {
            return scanned(conn, company, &text.pattern, request).await;
        }
        Index::Letters { is_exact } => count_letters(&mut *conn, company, text, is_exact).await?,
        Index::Trigrams => count_trigrams(&mut *conn, company, &text.pattern).await?,
    };
    let Some(window) = Window::of(request, total) else { return Ok((Vec::new(), total)) };
    if let Some(names) = window.names_to_read(members, total) {
        let rows = among_names(&mut *conn, company, &text.pattern, names, window).await?;
        if window.is_filled_by(&rows) {
            return Ok((rows, total));
        }
    }
    let rows = match text.index {
        Index::Letters { is_exact } => sorted_letters(conn, company, text, is_exact, window).await?,
        Index::Trigrams => sorted_trigrams(conn, company, &text.pattern, window).await?,
    };
    Ok((rows, total))
}

/// Reads every member of the company, and the total with the page: one more statement would read them again.
async fn scanned(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
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
    .fetch_all(&mut *conn)
    .await?;
    let total = match rows.first() {
        Some(row) => row.total,
        // A page past the end has no row to carry the total.
        None => count_scanned(conn, company, pattern).await?,
    };
    Ok((rows.into_iter().map(Row::from).collect(), total))
}

async fn count_scanned(conn: &mut PgConnection, company: CompanyId, pattern: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM org.members
            WHERE company_id = $1 AND is_active AND (display_name ILIKE $2 OR email ILIKE $2)"#,
        company.as_uuid(),
        pattern,
    )
    .fetch_one(conn)
    .await
}

/// Counts with the index `members_letters`; the query must repeat the index's expression exactly. A match has all letters
/// and pairs of the text, so a single letter or pair needs no `ILIKE`.
async fn count_letters(
    conn: &mut PgConnection,
    company: CompanyId,
    text: &Text,
    is_exact: bool,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM (
             SELECT FROM org.members
              WHERE company_id = $1 AND is_active
                AND org.letters_and_pairs(display_name || E'\n' || coalesce(email, '')) @>
                    CASE WHEN $3 THEN ARRAY[lower($2)] ELSE org.letters_and_pairs($2) END
                AND ($3 OR display_name ILIKE $4 OR email ILIKE $4)
              LIMIT $5) found"#,
        company.as_uuid(),
        text.typed,
        is_exact,
        text.pattern,
        MAX_FOUND + 1,
    )
    .fetch_one(conn)
    .await
}

/// Counts with the index `members_search`; the query must repeat the index's expression exactly.
async fn count_trigrams(conn: &mut PgConnection, company: CompanyId, pattern: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM (
             SELECT FROM org.members
              WHERE company_id = $1 AND is_active AND (display_name || E'\n' || coalesce(email, '')) ILIKE $2
              LIMIT $3) found"#,
        company.as_uuid(),
        pattern,
        MAX_FOUND + 1,
    )
    .fetch_one(conn)
    .await
}

/// Searches the first `names` in the order of lists. A text has no line feed, so it is in a name or an address.
async fn among_names(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
    names: i64,
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
        names,
    )
    .fetch_all(conn)
    .await
}

/// Sorts all matches. `OFFSET 0` keeps the planner from walking through every member by name to fill a page.
async fn sorted_letters(
    conn: &mut PgConnection,
    company: CompanyId,
    text: &Text,
    is_exact: bool,
    window: Window,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id AS "id!", display_name AS "display_name!", email, user_id IS NOT NULL AS "has_linked_user!"
             FROM (SELECT id, display_name, email, user_id FROM org.members
                    WHERE company_id = $1 AND is_active
                      AND org.letters_and_pairs(display_name || E'\n' || coalesce(email, '')) @>
                          CASE WHEN $3 THEN ARRAY[lower($2)] ELSE org.letters_and_pairs($2) END
                      AND ($3 OR display_name ILIKE $4 OR email ILIKE $4) OFFSET 0) found
            ORDER BY display_name COLLATE "C", id LIMIT $5 OFFSET $6"#,
        company.as_uuid(),
        text.typed,
        is_exact,
        text.pattern,
        window.limit,
        window.offset,
    )
    .fetch_all(conn)
    .await
}

/// As [`sorted_letters`], with the index `members_search`.
async fn sorted_trigrams(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
    window: Window,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id AS "id!", display_name AS "display_name!", email, user_id IS NOT NULL AS "has_linked_user!"
             FROM (SELECT id, display_name, email, user_id FROM org.members
                    WHERE company_id = $1 AND is_active AND (display_name || E'\n' || coalesce(email, '')) ILIKE $2
                   OFFSET 0) found
            ORDER BY display_name COLLATE "C", id LIMIT $3 OFFSET $4"#,
        company.as_uuid(),
        pattern,
        window.limit,
        window.offset,
    )
    .fetch_all(conn)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(page: u32, total: i64) -> Option<(i64, i64)> {
        let window = Window::of(PageRequest { page, page_size: 100 }, total);
        window.map(|window| (window.offset, window.limit))
    }

    #[test]
    fn a_page_shows_no_match_past_the_most_that_are_shown() {
        assert_eq!(window(1, 0), None);
        assert_eq!(window(1, 99), Some((0, 99)));
        assert_eq!(window(2, 100), None);
        assert_eq!(window(100, MAX_FOUND + 1), Some((9_900, 100)));
        assert_eq!(window(101, MAX_FOUND + 1), None);
    }

    #[test]
    fn the_first_pages_of_a_frequent_text_are_near_by_name() {
        let names = |page, total| {
            let window = Window::of(PageRequest { page, page_size: 25 }, total).expect("a page");
            window.names_to_read(1_000_000, total)
        };
        assert_eq!(names(1, 9_000), Some(5_555));
        assert_eq!(names(2, 9_000), None);
        assert_eq!(names(1, MAX_FOUND + 1), Some(4_999));
        assert_eq!(names(400, MAX_FOUND + 1), Some(MAX_NAMES));
        assert_eq!(names(1, 1_000), None);
    }
}
