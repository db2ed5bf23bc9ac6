//! Makes `authz.tuple` (source `org`) equal to `org.derived_tuples`, and finds differences in portions.

use contract::id::{CompanyId, MemberId};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Rewrites the tuples of these subjects in a company from the rows that this transaction sees; returns the number of
/// changed tuples. The caller must hold the company's row exclusively, or share it and hold the members' rows.
pub(crate) async fn rewrite(
    conn: &mut PgConnection,
    company: CompanyId,
    subjects: &[String],
) -> sqlx::Result<u64> {
    let removed = remove_stale(conn, company, subjects).await?;
    Ok(removed + add_missing(conn, company, subjects).await?)
}

async fn remove_stale(conn: &mut PgConnection, company: CompanyId, subjects: &[String]) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM authz.tuple t
          WHERE t.source = 'org' AND t.subject_type = 'user' AND t.subject_id = ANY($2)
            AND ((t.object_type = 'company' AND t.object_id = $1::uuid::text)
              OR (t.object_type = 'position' AND t.object_id IN (SELECT id::text FROM org.positions WHERE company_id = $1))
              OR (t.object_type = 'group' AND t.object_id IN (SELECT id::text FROM org.groups WHERE company_id = $1)))
            AND NOT EXISTS (
              SELECT FROM org.derived_tuples d
               WHERE d.company_id = $1 AND d.subject_id = ANY($2) AND t.subject_relation = ''
                 AND (d.object_type, d.object_id, d.relation, d.subject_id)
                   = (t.object_type, t.object_id, t.relation, t.subject_id))",
        company.as_uuid(),
        subjects,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

async fn add_missing(conn: &mut PgConnection, company: CompanyId, subjects: &[String]) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT d.object_type, d.object_id, d.relation, 'user', d.subject_id, '', 'org'
           FROM org.derived_tuples d
          WHERE d.company_id = $1 AND d.subject_id = ANY($2)
          ORDER BY 1, 2, 3, 5
             ON CONFLICT DO NOTHING",
        company.as_uuid(),
        subjects,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// A portion of the members, by company and id.
pub(crate) struct Members {
    /// The member after which the next portion begins; `None` if this is the last portion.
    pub(crate) last: Option<(CompanyId, MemberId)>,
    /// Companies and subjects with a missing tuple.
    pub(crate) lacking: Vec<(CompanyId, String)>,
}

/// Reads the members after the given one and finds missing tuples.
pub(crate) async fn members_after(
    db: impl PgExecutor<'_>,
    (company, member): (CompanyId, MemberId),
    limit: i64,
) -> sqlx::Result<Members> {
    let row = sqlx::query!(
        r#"WITH portion AS MATERIALIZED (
             SELECT company_id, id, user_id FROM org.members WHERE (company_id, id) > ($1, $2)
              ORDER BY company_id, id LIMIT $3),
           lacking AS MATERIALIZED (
             SELECT DISTINCT p.company_id, p.user_id
               FROM portion p
              CROSS JOIN LATERAL (
                SELECT d.object_type, d.object_id, d.relation FROM org.derived_tuples d
                 WHERE d.company_id = p.company_id AND d.subject_id = p.user_id OFFSET 0) d
              WHERE NOT EXISTS (
                SELECT FROM authz.tuple t
                 WHERE t.object_type = d.object_type AND t.object_id = d.object_id AND t.relation = d.relation
                   AND t.subject_type = 'user' AND t.subject_id = p.user_id AND t.subject_relation = ''))
           SELECT (SELECT count(*) FROM portion) AS "rows!",
             (SELECT company_id FROM portion ORDER BY company_id DESC, id DESC LIMIT 1) AS company,
             (SELECT id FROM portion ORDER BY company_id DESC, id DESC LIMIT 1) AS member,
             ARRAY(SELECT company_id FROM lacking ORDER BY company_id, user_id) AS "companies!: Vec<Uuid>",
             ARRAY(SELECT user_id FROM lacking ORDER BY company_id, user_id) AS "subjects!: Vec<String>""#,
        company.as_uuid(),
        member.as_uuid(),
        limit,
    )
    .fetch_one(db)
    .await?;
    let last = row.company.zip(row.member).filter(|_| row.rows == limit);
    Ok(Members {
        last: last.map(|(company, member)| (company.into(), member.into())),
        lacking: row.companies.into_iter().map(CompanyId::from).zip(row.subjects).collect(),
    })
}

/// The type of the tuples' objects, in the order of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Company,
    Position,
    Group,
}

impl Kind {
    /// The object type of the tuples.
    const fn object_type(self) -> &'static str {
        match self {
            Self::Company => "company",
            Self::Position => "position",
            Self::Group => "group",
        }
    }

    /// The relation that org derives on these objects.
    const fn relation(self) -> &'static str {
        match self {
            Self::Company | Self::Group => "member",
            Self::Position => "holder",
        }
    }

    /// The kind that is compared next.
    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::Company => Some(Self::Position),
            Self::Position => Some(Self::Group),
            Self::Group => None,
        }
    }
}

/// A portion of the tuples of one kind, by object and subject.
pub(crate) struct Tuples {
    /// Object and subject after which the next portion begins; `None` if this is the last portion.
    pub(crate) last: Option<(String, String)>,
    /// Tuples without a row.
    pub(crate) stale: Vec<Stale>,
}

/// A tuple without a row.
pub(crate) struct Stale {
    /// `None` if the object does not exist.
    pub(crate) company: Option<CompanyId>,
    pub(crate) object: String,
    pub(crate) subject: String,
}

/// Reads the tuples of a kind after the given one and finds those without a row.
pub(crate) async fn tuples_after(
    db: impl PgExecutor<'_>,
    kind: Kind,
    (object, subject): &(String, String),
    limit: i64,
) -> sqlx::Result<Tuples> {
    let row = sqlx::query!(
        r#"WITH portion AS MATERIALIZED (
             SELECT object_type, object_id, relation, subject_id FROM authz.tuple
              WHERE object_type = $1 AND relation = $5 AND source = 'org'
                AND subject_type = 'user' AND subject_relation = ''
                AND (object_id, relation, subject_type, subject_id)
                  > ($2::text COLLATE "C", $5::text COLLATE "C", 'user', $3::text COLLATE "C")
              ORDER BY object_id, relation, subject_type, subject_id LIMIT $4),
           stale AS MATERIALIZED (
             SELECT p.object_id, p.subject_id, coalesce(
                 (SELECT c.id FROM org.units c WHERE $1 = 'company' AND c.type_key = 'company' AND c.id::text = p.object_id),
                 (SELECT x.company_id FROM org.positions x WHERE $1 = 'position' AND x.id::text = p.object_id),
                 (SELECT g.company_id FROM org.groups g WHERE $1 = 'group' AND g.id::text = p.object_id)) AS company
               FROM portion p
              -- By the index of members, whose collation is not the tuples'.
              WHERE p.object_id <> ALL (ARRAY(
                SELECT d.object_id FROM org.derived_tuples d
                 WHERE d.subject_id = p.subject_id COLLATE "default" AND d.object_type = p.object_type
                   AND d.relation = p.relation)))
           SELECT (SELECT count(*) FROM portion) AS "rows!",
             (SELECT object_id FROM portion ORDER BY object_id DESC, subject_id DESC LIMIT 1) AS object,
             (SELECT subject_id FROM portion ORDER BY object_id DESC, subject_id DESC LIMIT 1) AS subject,
             ARRAY(SELECT company FROM stale ORDER BY object_id, subject_id) AS "companies!: Vec<Option<Uuid>>",
             ARRAY(SELECT object_id FROM stale ORDER BY object_id, subject_id) AS "objects!: Vec<String>",
             ARRAY(SELECT subject_id FROM stale ORDER BY object_id, subject_id) AS "subjects!: Vec<String>""#,
        kind.object_type(),
        object,
        subject,
        limit,
        kind.relation(),
    )
    .fetch_one(db)
    .await?;
    let last = row.object.zip(row.subject).filter(|_| row.rows == limit);
    let named = row.objects.into_iter().zip(row.subjects);
    let stale = row.companies.into_iter().zip(named).map(|(company, (object, subject))| Stale {
        company: company.map(CompanyId::from),
        object,
        subject,
    });
    Ok(Tuples { last, stale: stale.collect() })
}

/// Locks a company's row exclusively until the transaction ends, so that no other transaction writes in the company.
pub(crate) async fn hold_company(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    sqlx::query!("SELECT id FROM org.units WHERE id = $1 FOR UPDATE", company.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(())
}

/// Removes the tuples of those of these objects, all of one kind, that do not exist. An id is minted only once, so none
/// of these objects can appear later.
pub(crate) async fn remove_orphans(
    conn: &mut PgConnection,
    kind: Kind,
    objects: &[String],
) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM authz.tuple t
          WHERE t.source = 'org' AND t.object_type = $1 AND t.object_id = ANY($2) AND NOT EXISTS (
            SELECT FROM org.units c WHERE t.object_type = 'company' AND c.type_key = 'company' AND c.id::text = t.object_id
            UNION ALL SELECT FROM org.positions p WHERE t.object_type = 'position' AND p.id::text = t.object_id
            UNION ALL SELECT FROM org.groups g WHERE t.object_type = 'group' AND g.id::text = t.object_id)",
        kind.object_type(),
        objects,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
