//! Searches of a large company for a text without a trigram, which matches many members: they are counted with the index
//! `members_letters`, and the page is read in the order of names where it is likely to be near.

use contract::id::CompanyId;
use contract::page::PageRequest;
use sqlx::PgConnection;

use super::rules::Short;
use super::store::Row;

/// Returns the page of a company with this many active members, and the number of matches.
pub(super) async fn page(
    conn: &mut PgConnection,
    company: CompanyId,
    short: &Short,
    members: i64,
    request: PageRequest,
) -> sqlx::Result<(Vec<Row>, i64)> {
    let total = count(&mut *conn, company, short).await?;
    let on_page = usize::try_from(request.limit().min(total - request.offset())).unwrap_or_default();
    if on_page == 0 {
        return Ok((Vec::new(), total));
    }
    if let Some(names) = names_to_read(members, total, request) {
        let rows = among_names(&mut *conn, company, short, (names, total), request).await?;
        if rows.len() == on_page {
            return Ok((rows, total));
        }
    }
    let rows = sorted(&mut *conn, company, short, total, request).await?;
    Ok((rows, total))
}

/// How many names from the first one hold the page, if matches are spread evenly, doubled in case they are not. `None` if
/// reading those is dearer than reading all matches.
fn names_to_read(members: i64, total: i64, request: PageRequest) -> Option<i64> {
    let until = request.offset() + request.limit();
    let names = members.saturating_mul(until).saturating_mul(2) / total;
    (names <= total).then_some(names)
}

/// Counts the matches with the index `members_letters`; the query must repeat the index's expression exactly. A match has
/// all letters and pairs of the text, so a single letter or pair needs no `ILIKE`.
pub(super) async fn count(conn: &mut PgConnection, company: CompanyId, short: &Short) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM org.members
            WHERE company_id = $1 AND is_active
              AND org.letters_and_pairs(display_name || E'\n' || coalesce(email, '')) @>
                  CASE WHEN $3 THEN ARRAY[lower($2)] ELSE org.letters_and_pairs($2) END
              AND ($3 OR display_name ILIKE $4 OR email ILIKE $4)"#,
        company.as_uuid(),
        short.text,
        short.is_one_pair,
        short.pattern,
    )
    .fetch_one(conn)
    .await
}

/// Searches the first `names` in the order of lists.
async fn among_names(
    conn: &mut PgConnection,
    company: CompanyId,
    short: &Short,
    (names, total): (i64, i64),
    request: PageRequest,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id AS "id!", display_name AS "display_name!", email, user_id IS NOT NULL AS "has_linked_user!",
                  $6::bigint AS "total!"
             FROM (SELECT id, display_name, email, user_id FROM org.members WHERE company_id = $1 AND is_active
                   ORDER BY display_name COLLATE "C", id LIMIT $5) named
            WHERE display_name ILIKE $2 OR email ILIKE $2
            ORDER BY display_name COLLATE "C", id LIMIT $3 OFFSET $4"#,
        company.as_uuid(),
        short.pattern,
        request.limit(),
        request.offset(),
        names,
        total,
    )
    .fetch_all(conn)
    .await
}

/// Sorts all matches. `OFFSET 0` keeps the planner from walking through every member by name to fill a page.
async fn sorted(
    conn: &mut PgConnection,
    company: CompanyId,
    short: &Short,
    total: i64,
    request: PageRequest,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id AS "id!", display_name AS "display_name!", email, user_id IS NOT NULL AS "has_linked_user!",
                  $7::bigint AS "total!"
             FROM (SELECT id, display_name, email, user_id FROM org.members
                    WHERE company_id = $1 AND is_active
                      AND org.letters_and_pairs(display_name || E'\n' || coalesce(email, '')) @>
                          CASE WHEN $3 THEN ARRAY[lower($2)] ELSE org.letters_and_pairs($2) END
                      AND ($3 OR display_name ILIKE $4 OR email ILIKE $4) OFFSET 0) found
            ORDER BY display_name COLLATE "C", id LIMIT $5 OFFSET $6"#,
        company.as_uuid(),
        short.text,
        short.is_one_pair,
        short.pattern,
        request.limit(),
        request.offset(),
        total,
    )
    .fetch_all(conn)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pages_of_a_frequent_text_are_near_by_name() {
        let of = |page| PageRequest { page, page_size: 25 };
        assert_eq!(names_to_read(1_000_000, 30_000, of(1)), Some(1_666));
        assert_eq!(names_to_read(1_000_000, 30_000, of(18)), Some(30_000));
        assert_eq!(names_to_read(1_000_000, 30_000, of(19)), None);
        assert_eq!(names_to_read(1_000_000, 1_000, of(1)), None);
    }
}
