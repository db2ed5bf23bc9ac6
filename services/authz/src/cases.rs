//! Relationship questions with known answers, as data: `{cases: [{id, model, tuples, checks, listObjects?,
//! listSubjects?}]}`. Each case has its own effective model in the grammar of fragments; unknown members are ignored.
//! The cases run against the graph in memory and the SQL engine, and every unexpected answer is reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::decision::ObjectRef;
use contract::fragment::{Expression, Relations};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgConnection;

use crate::engine::facts::{Ask, Held, Question, SubjectRef};
use crate::engine::{FixedGraph, Model, SqlEngine, TupleRow, Unanswered};

/// Maximum depth of an expression.
const MAX_DEPTH: usize = 64;

/// Why a file cannot be read as cases.
#[derive(Debug, thiserror::Error)]
pub enum BadCases {
    /// The text is not JSON of this shape.
    #[error("not a file of cases: {0}")]
    Shape(#[from] serde_json::Error),
    /// A case is invalid.
    #[error("case {case}: {problem}")]
    Case {
        /// The id of the case.
        case: String,
        /// The problem.
        problem: String,
    },
}

#[derive(Deserialize)]
struct File {
    cases: Vec<Raw>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    id: Value,
    model: BTreeMap<String, BTreeMap<String, Value>>,
    tuples: Vec<Tuple>,
    #[serde(default)]
    checks: Vec<RawCheck>,
    #[serde(default)]
    list_objects: Vec<RawObjects>,
    #[serde(default)]
    list_subjects: Vec<RawSubjects>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tuple {
    object_type: String,
    object_id: String,
    relation: String,
    subject_type: String,
    subject_id: String,
    #[serde(default)]
    subject_relation: Option<String>,
}

#[derive(Deserialize)]
struct RawCheck {
    object: String,
    relation: String,
    subject: String,
    expected: bool,
}

#[derive(Deserialize)]
struct RawObjects {
    #[serde(rename = "type")]
    kind: String,
    relation: String,
    subject: String,
    expected: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSubjects {
    object: String,
    relation: String,
    subject_type: String,
    #[serde(default)]
    subject_relation: String,
    expected: Vec<String>,
}

/// One parsed case.
pub struct Case {
    id: String,
    model: Arc<Model>,
    tuples: Vec<Tuple>,
    checks: Vec<(SubjectRef, Ask, bool)>,
    objects: Vec<(SubjectRef, String, String, Vec<String>)>,
    subjects: Vec<(Ask, (String, String), Vec<String>)>,
}

/// The result of some cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of expected answers.
    pub passed: usize,
    /// Descriptions of the unexpected answers.
    pub failed: Vec<String>,
}

impl Outcome {
    fn note<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: impl FnOnce() -> String,
        said: &T,
        expected: &T,
    ) {
        if said == expected {
            self.passed += 1;
        } else {
            self.failed.push(format!("{}: expected {expected:?}, said {said:?}", what()));
        }
    }

    /// Adds another outcome.
    pub fn join(&mut self, mut other: Self) {
        self.passed += other.passed;
        self.failed.append(&mut other.failed);
    }
}

/// Parses a file.
///
/// # Errors
/// The text is not a file of cases, or a case is invalid.
pub fn parse(text: &str) -> Result<Vec<Case>, BadCases> {
    let File { cases } = serde_json::from_str(text)?;
    cases.into_iter().map(Case::parse).collect()
}

impl Case {
    fn parse(raw: Raw) -> Result<Self, BadCases> {
        let id = raw.id.as_str().map_or_else(|| raw.id.to_string(), ToOwned::to_owned);
        let bad = |problem: String| BadCases::Case { case: id.clone(), problem };
        let mut base = Relations::new();
        for (name, of_type) in &raw.model {
            let mut relations = BTreeMap::new();
            for (relation, value) in of_type {
                relations.insert(relation.clone(), expression(value, 0).map_err(bad)?);
            }
            base.insert(name.clone(), relations);
        }
        let model = Model::compile(0, &base, &BTreeMap::new()).map_err(|error| bad(error.to_string()))?;
        let mut case = Self {
            model: Arc::new(model),
            tuples: raw.tuples,
            checks: Vec::new(),
            objects: Vec::new(),
            subjects: Vec::new(),
            id: id.clone(),
        };
        for RawCheck { object, relation, subject: text, expected } in raw.checks {
            let ask = Ask::new(self::object(&object).map_err(bad)?, &relation);
            case.checks.push((subject(&text).map_err(bad)?, ask, expected));
        }
        for RawObjects { kind, relation, subject: text, expected } in raw.list_objects {
            let ids = ids(&kind, "", &expected).map_err(bad)?;
            case.objects.push((subject(&text).map_err(bad)?, kind, relation, ids));
        }
        for RawSubjects { object, relation, subject_type, subject_relation, expected } in raw.list_subjects {
            let ids = ids(&subject_type, &subject_relation, &expected).map_err(bad)?;
            let ask = Ask::new(self::object(&object).map_err(bad)?, &relation);
            case.subjects.push((ask, (subject_type, subject_relation), ids));
        }
        Ok(case)
    }

    fn rows(&self) -> impl Iterator<Item = TupleRow<'_>> {
        self.tuples.iter().map(|tuple| TupleRow {
            object_type: &tuple.object_type,
            object_id: &tuple.object_id,
            relation: &tuple.relation,
            subject_type: &tuple.subject_type,
            subject_id: &tuple.subject_id,
            subject_relation: tuple.subject_relation.as_deref().unwrap_or_default(),
        })
    }

    fn told(&self, engine: &str, what: &str) -> String {
        format!("{} ({engine}) {what}", self.id)
    }

    /// Runs the case against a graph in memory.
    #[must_use]
    pub fn by_memory(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let graph = match FixedGraph::build(&self.model, self.rows()) {
            Ok(graph) => graph,
            Err(full) => {
                outcome.failed.push(self.told("memory", &full.to_string()));
                return outcome;
            }
        };
        for (subject, ask, expected) in &self.checks {
            let said = graph.check(subject, std::slice::from_ref(ask)).pop().map(|(held, _)| held);
            let expected = Some(if *expected { Held::Yes } else { Held::No });
            outcome.note(|| self.told("memory", &format!("{ask:?} {subject:?}")), &said, &expected);
        }
        for (subject, kind, relation, expected) in &self.objects {
            let said = graph.objects(subject, kind, relation);
            let what = || self.told("memory", &format!("objects {kind} {relation} {subject:?}"));
            outcome.note(what, &said.as_ref(), &Some(expected));
        }
        for (ask, (kind, of), expected) in &self.subjects {
            let said = graph.subjects(ask, (kind, of));
            let what = || self.told("memory", &format!("subjects {kind}#{of} {ask:?}"));
            outcome.note(what, &said.as_ref(), &Some(expected));
        }
        outcome
    }

    /// Runs the case against the SQL engine. Replaces all tuples with the case's, over `owner`.
    ///
    /// # Errors
    /// The database cannot be queried.
    pub async fn by_sql(&self, engine: &SqlEngine, owner: &mut PgConnection) -> Result<Outcome, Unanswered> {
        self.store(owner)
            .await
            .map_err(|error| Unanswered { dependency: "postgres", cause: error.to_string() })?;
        let mut outcome = Outcome::default();
        for (subject, ask, expected) in &self.checks {
            let question = Question { subject: subject.clone(), places: Vec::new(), asks: vec![ask.clone()] };
            let said = engine.read_by(&self.model, &question).await?.holds(ask);
            let expected = if *expected { Held::Yes } else { Held::No };
            outcome.note(|| self.told("sql", &format!("{ask:?} {subject:?}")), &said, &expected);
        }
        for (subject, kind, relation, expected) in &self.objects {
            let said = engine.objects_by(&self.model, subject, kind, relation).await?;
            let what = || self.told("sql", &format!("objects {kind} {relation} {subject:?}"));
            outcome.note(what, &said, expected);
        }
        for (ask, (kind, of), expected) in &self.subjects {
            let said = engine.subjects_by(&self.model, ask, (kind, of)).await?;
            outcome.note(|| self.told("sql", &format!("subjects {kind}#{of} {ask:?}")), &said, expected);
        }
        Ok(outcome)
    }

    async fn store(&self, owner: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::raw_sql("TRUNCATE authz.tuple").execute(&mut *owner).await?;
        let mut columns: [Vec<&str>; 6] = Default::default();
        for row in self.rows() {
            let values = [
                row.object_type,
                row.object_id,
                row.relation,
                row.subject_type,
                row.subject_id,
                row.subject_relation,
            ];
            for (column, value) in columns.iter_mut().zip(values) {
                column.push(value);
            }
        }
        let [object_type, object_id, relation, subject_type, subject_id, subject_relation] = columns;
        let insert = "INSERT INTO authz.tuple
            SELECT *, 'grant' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
            ON CONFLICT DO NOTHING";
        sqlx::query(insert)
            .bind(object_type)
            .bind(object_id)
            .bind(relation)
            .bind(subject_type)
            .bind(subject_id)
            .bind(subject_relation)
            .execute(owner)
            .await?;
        Ok(())
    }
}

fn object(text: &str) -> Result<ObjectRef, String> {
    let (kind, id) = text.split_once(':').ok_or_else(|| format!("\"{text}\" is not type:id"))?;
    Ok(ObjectRef { kind: kind.to_owned(), id: id.to_owned() })
}

fn subject(text: &str) -> Result<SubjectRef, String> {
    let (name, relation) = text.split_once('#').unwrap_or((text, ""));
    let ObjectRef { kind, id } = object(name)?;
    Ok(SubjectRef { kind, id, relation: relation.to_owned() })
}

/// The ids of these names, sorted as the engines return them.
fn ids(kind: &str, of: &str, names: &[String]) -> Result<Vec<String>, String> {
    let id = |name: &String| {
        let SubjectRef { kind: own, id, relation } = subject(name)?;
        if (own.as_str(), relation.as_str()) == (kind, of) {
            Ok(id)
        } else {
            Err(format!("\"{name}\" is no {kind}#{of}"))
        }
    };
    let mut ids = names.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// Parses an expression. An effective model is not a fragment: it may contain base types and needs no anchor.
fn expression(value: &Value, depth: usize) -> Result<Expression, String> {
    let wrong = || format!("{value} is no expression");
    if depth > MAX_DEPTH {
        return Err(wrong());
    }
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned).ok_or_else(wrong);
    let member = |name: &str| value.as_object().filter(|members| members.len() == 1)?.get(name);
    if member("this").is_some() {
        Ok(Expression::This)
    } else if let Some(relation) = member("computedUserset") {
        text(relation).map(Expression::Computed)
    } else if let Some(steps) = member("tupleToUserset") {
        let part = |name: &str| steps.get(name).ok_or_else(wrong).and_then(text);
        Ok(Expression::TupleTo { tupleset: part("tupleset")?, computed: part("computedUserset")? })
    } else if let Some(Value::Array(children)) = member("union") {
        let children = children.iter().map(|child| expression(child, depth + 1));
        children.collect::<Result<_, _>>().map(Expression::Union)
    } else {
        Err(wrong())
    }
}
