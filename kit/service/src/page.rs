//! Lists. [`load`] reads a numbered page with the exact length of the list; [`Cursor`] and [`slice()`] continue where
//! the last slice ended, at the same cost however far down the list.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::page::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page, PageRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{ApiError, Query};

/// Longest accepted cursor, in bytes: room for a few ids and timestamps.
pub const MAX_CURSOR: usize = 512;

/// Reads one page. `rows` is one statement that takes a limit and an offset. Each of its rows holds the length of the
/// whole list (`total`), so that both come from one snapshot. The statement counts the list's own table, stored counts
/// or a window over one table, never a window over a join. For a page past the end it returns any row of the list, for
/// its length, or none; then the first row of the list is read as well.
///
/// # Errors
/// 503 when the database is unavailable; those of `item`.
pub async fn load<R, T, F>(
    page: PageRequest,
    rows: impl Fn(i64, i64) -> F,
    total: impl Fn(&R) -> i64,
    item: impl FnMut(R) -> Result<T, ApiError>,
) -> Result<Page<T>, ApiError>
where
    F: Future<Output = sqlx::Result<Vec<R>>>,
{
    let found = rows(page.limit(), page.offset()).await?;
    let length = match found.first() {
        Some(row) => total(row),
        None if page.page == 1 => 0,
        // The list may have grown since, but when the page was read it had no row.
        None => rows(1, 0).await?.first().map_or(0, total).min(page.offset()),
    };
    let found = if page.offset() < length { found } else { Vec::new() };
    let items = found.into_iter().map(item).collect::<Result<_, _>>()?;
    Ok(Page::new(page, items, length))
}

/// Where a slice begins and its maximum length. `K` holds the order's columns of the last row before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor<K> {
    /// The last row before the slice; `None` at the start of the list.
    pub after: Option<K>,
    size: u32,
}

/// A slice of a list, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slice<T> {
    /// The rows.
    pub items: Vec<T>,
    /// `cursor` of the next slice; `None` at the end of the list.
    pub next: Option<String>,
}

impl<K: Serialize + DeserializeOwned> Cursor<K> {
    /// Reads `cursor` and `pageSize` of a query. A cursor is opaque to clients; it decides only a position in the
    /// order, so it needs no signature.
    ///
    /// # Errors
    /// 400 naming each wrong value.
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        let wrong = || ApiError::validation_field("cursor", "cursor", "`next` of an earlier answer");
        let after = query.get("cursor").map(|text| Self::read(text).ok_or_else(wrong)).transpose();
        let size = PageRequest::parse(None, query.get("pageSize")).map_err(ApiError::Validation);
        let (after, size) = crate::query::both(after, size)?;
        Ok(Self { after, size: size.page_size })
    }

    /// The start of a list, with the default slice size.
    #[must_use]
    pub const fn start() -> Self {
        Self { after: None, size: DEFAULT_PAGE_SIZE }
    }

    /// The start of a list, with the largest slice size.
    #[must_use]
    pub const fn start_large() -> Self {
        Self { after: None, size: MAX_PAGE_SIZE }
    }

    /// The `LIMIT` for SQL: one row more than the slice holds, to know whether there are more.
    #[must_use]
    pub fn limit(&self) -> i64 {
        i64::from(self.size) + 1
    }

    fn read(text: &str) -> Option<K> {
        let bytes = (text.len() <= MAX_CURSOR).then(|| URL_SAFE_NO_PAD.decode(text))?.ok()?;
        let key: Value = serde_json::from_slice(&bytes).ok()?;
        if holds_nul(&key) { None } else { serde_json::from_value(key).ok() }
    }
}

/// Makes a slice of the rows that were read with [`Cursor::limit`]; `key` returns the order's columns of a row.
///
/// # Errors
/// 500 for a key that does not serialise to JSON; those of `item`.
pub fn slice<K: Serialize + DeserializeOwned, R, T>(
    cursor: &Cursor<K>,
    mut rows: Vec<R>,
    key: impl Fn(&R) -> K,
    item: impl FnMut(R) -> Result<T, ApiError>,
) -> Result<Slice<T>, ApiError> {
    let size = usize::try_from(cursor.size).map_err(ApiError::internal)?;
    let more = rows.len() > size;
    rows.truncate(size);
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| serde_json::to_vec(&key(row))).transpose().map_err(ApiError::internal)?;
    let items = rows.into_iter().map(item).collect::<Result<_, _>>()?;
    Ok(Slice { items, next: next.map(|bytes| URL_SAFE_NO_PAD.encode(bytes)) })
}

/// Whether the key holds U+0000, which PostgreSQL does not accept, so no row has such a key.
fn holds_nul(key: &Value) -> bool {
    match key {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(members) => members.values().any(holds_nul),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn cursor(query: &str) -> Result<Cursor<(i64, String)>, String> {
        Cursor::of(&Query::parse(query).expect("form data")).map_err(|error| {
            let ApiError::Validation(problems) = error else { panic!("{error:?}") };
            problems.iter().map(|problem| problem.path.clone()).collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn slices_put_together_are_the_whole_list() {
        let rows: Vec<i64> = (0..7).collect();
        for size in [1, 2, 3, 6, 7, 8, 100] {
            let (mut seen, mut query) = (Vec::new(), format!("pageSize={size}"));
            loop {
                let at = cursor(&query).expect("our own");
                let after = at.after.as_ref().map_or(-1, |(last, _)| *last);
                let limit = usize::try_from(at.limit()).expect("small");
                let found = rows.iter().copied().filter(|row| *row > after).take(limit).collect();
                let slice = slice(&at, found, |row| (*row, "ä".to_owned()), Ok).expect("numbers");
                assert!(slice.items.len() <= size);
                seen.extend(slice.items);
                let Some(next) = slice.next else { break };
                query = format!("pageSize={size}&cursor={next}");
            }
            assert_eq!(seen, rows, "{size}");
        }
    }

    #[test]
    fn a_cursor_of_another_shape_is_refused_by_name() {
        let written = |text: &str| URL_SAFE_NO_PAD.encode(text);
        assert!(cursor(&format!("cursor={}", written("[1,\"a\"]"))).is_ok());
        for bad in ["", "%20", "!!", &written("[1]"), &written("{}"), &written("[\"a\",1]"), "W10="] {
            assert_eq!(cursor(&format!("cursor={bad}")), Err("cursor".to_owned()), "{bad}");
        }
        for bad in ["[1,\"\\u0000\"]", "[1,\"a\\u0000b\"]"] {
            let told = cursor(&format!("cursor={}", written(bad)));
            assert_eq!(told, Err("cursor".to_owned()), "PostgreSQL takes no U+0000: {bad}");
        }
        let literal = cursor(&format!("cursor={}", written("[1,\"\\\\u0000\"]")));
        assert_eq!(literal.expect("six characters").after, Some((1, "\\u0000".to_owned())));
        assert_eq!(cursor("cursor=x&pageSize=101"), Err("cursor pageSize".to_owned()));
        let frame = written("[1,\"\"]").len();
        let longest = "a".repeat((MAX_CURSOR - frame) * 3 / 4);
        assert!(cursor(&format!("cursor={}", written(&format!("[1,\"{longest}\"]")))).is_ok());
        assert!(cursor(&format!("cursor={}", written(&format!("[1,\"{longest}aaaa\"]")))).is_err());
    }

    #[tokio::test]
    async fn a_page_past_the_end_tells_the_length_and_an_empty_list_is_read_once() {
        let asked = RefCell::new(Vec::new());
        let page = async |page, length: i64| {
            let rows = |limit, offset| {
                asked.borrow_mut().push((limit, offset));
                let rows = (offset..length).take(usize::try_from(limit).expect("small")).collect();
                std::future::ready(sqlx::Result::<Vec<i64>>::Ok(rows))
            };
            let request = PageRequest { page, page_size: 2 };
            let page = load(request, rows, |_| length, Ok).await.expect("rows");
            (page.items, page.total, asked.take())
        };
        assert_eq!(page(2, 3).await, (vec![2], 3, vec![(2, 2)]));
        assert_eq!(page(3, 3).await, (vec![], 3, vec![(2, 4), (1, 0)]));
        assert_eq!(page(1, 0).await, (vec![], 0, vec![(2, 0)]));
    }

    #[tokio::test]
    async fn an_empty_page_of_a_list_that_grows_meanwhile_lies_past_its_end() {
        let lengths = RefCell::new(vec![5, 4]);
        let rows = |limit, offset| {
            let length = lengths.borrow_mut().pop().expect("two reads");
            let rows =
                (offset..length).take(usize::try_from(limit).expect("small")).map(|_| length).collect();
            std::future::ready(sqlx::Result::<Vec<i64>>::Ok(rows))
        };
        let page =
            load(PageRequest { page: 3, page_size: 2 }, rows, |length| *length, Ok).await.expect("rows");
        assert_eq!((page.items, page.total), (vec![], 4));
    }

    #[tokio::test]
    async fn a_page_past_the_end_whose_statement_tells_the_length_is_read_once() {
        let asked = RefCell::new(0);
        let page = async |page, length: i64| {
            let last = |limit, offset: i64| {
                *asked.borrow_mut() += 1;
                let from = offset.min((length - 1).max(0));
                let rows = (from..length).take(usize::try_from(limit).expect("small")).collect();
                std::future::ready(sqlx::Result::<Vec<i64>>::Ok(rows))
            };
            let request = PageRequest { page, page_size: 2 };
            let page = load(request, last, |_| length, Ok).await.expect("rows");
            (page.items, page.total, asked.take())
        };
        assert_eq!(page(2, 3).await, (vec![2], 3, 1));
        assert_eq!(page(3, 3).await, (vec![], 3, 1));
        assert_eq!(page(2, 2).await, (vec![], 2, 1));
        assert_eq!(page(1, 0).await, (vec![], 0, 1));
    }
}
