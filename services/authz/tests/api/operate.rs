//! The operator commands on the database.

use authz::facts::{Ask, SubjectRef};
use authz::operate::{self, TupleText};
use contract::decision::ObjectRef;
use sqlx::{Connection, PgConnection};

use crate::app::Rows;

#[tokio::test]
async fn tuples_are_listed_added_and_removed_each_with_its_audit_row() {
    let database = testkit::database().await;
    let mut owner = PgConnection::connect_with(&database.owner_options()).await.expect("a connection");
    let tuple = TupleText::parse("crm_deal:d#viewer@user:ann").expect("a tuple");
    for (add, changed) in [(true, true), (true, false), (false, true), (false, false), (true, true)] {
        let done = operate::change(&mut owner, add, &tuple, "me").await.expect("done");
        assert_eq!(done, changed);
    }
    let deal = ObjectRef { kind: "crm_deal".to_owned(), id: "d".to_owned() };
    let ann = SubjectRef::user("ann");
    for (object, subject) in
        [(None, None), (Some(&deal), None), (None, Some(&ann)), (Some(&deal), Some(&ann))]
    {
        let listed = operate::list(&mut owner, object, subject, 10).await.expect("a list");
        assert_eq!(listed, ["crm_deal:d#viewer@user:ann  operator"]);
    }
    let audit: Vec<String> = sqlx::query_scalar(
        "SELECT actor || ' ' || action || ' ' || subject FROM audit.authz__events ORDER BY seq",
    )
    .fetch_all(&mut owner)
    .await
    .expect("the audit");
    let row = |action: &str| format!("operator:me {action} crm_deal:d");
    assert_eq!(audit, [row("tuples.added"), row("tuples.removed"), row("tuples.added")]);
    let role = TupleText::parse("system:platform#superadmin@user:ann").expect("a tuple");
    assert!(
        operate::change(&mut owner, true, &role, "me").await.is_err(),
        "the platform role has its own way"
    );
    for text in ["", "a:1#r", "a:1@b:2", "a#r@b:2", "a:1#@b:2", "a:#r@b:2", ":1#r@b:2"] {
        assert!(TupleText::parse(text).is_err(), "{text}");
    }
}

/// The tuple's service would not notice the change, and would restore it at its next start or never.
#[tokio::test]
async fn a_tuple_that_a_service_keeps_is_neither_removed_nor_added() {
    let database = testkit::database().await;
    let rows = Rows(database.owner_pool());
    let mut owner = PgConnection::connect_with(&database.owner_options()).await.expect("a connection");
    let company = rows.company().await;
    rows.defaults(company, "crm").await;
    let (module, of_company) = (format!("company_module:{company}/crm"), format!("company:{company}"));
    let derived = [
        format!("{of_company}#member@user:ann"),
        "position:p#holder@user:ann".to_owned(),
        "group:g#member@user:ann".to_owned(),
    ];
    let count = async || {
        let sql = "SELECT count(*) FROM authz.tuple";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&rows.0).await.expect("a number")
    };
    for text in &derived {
        let tuple = TupleText::parse(text).expect("a tuple");
        let refused = operate::change(&mut owner, true, &tuple, "me").await.expect_err("org's");
        assert!(refused.to_string().starts_with(&format!("org keeps {text}")), "{refused}");
        rows.tuple(text, "org").await;
        let before = count().await;
        let refused = operate::change(&mut owner, false, &tuple, "me").await.expect_err("org's");
        assert!(refused.to_string().starts_with(&format!("org keeps {text}")), "{refused}");
        assert_eq!(count().await, before, "{text}");
        // A tuple that an operator added before this was refused gets in org's way; operators may remove it.
        rows.run("UPDATE authz.tuple SET source = 'operator' WHERE subject_id = 'ann'").await;
        assert!(operate::change(&mut owner, false, &tuple, "me").await.expect("the operators' own"));
    }
    let anchor = TupleText::parse(&format!("{module}#company@{of_company}")).expect("a tuple");
    let refused = operate::change(&mut owner, false, &anchor, "me").await.expect_err("the platform's");
    assert!(refused.to_string().starts_with("registry keeps"), "{refused}");
    for (add, text) in [
        (true, format!("{of_company}#admin@user:ann")),
        (true, format!("{module}#member@group:g#member")),
        (false, format!("{module}#system@system:platform")),
        (true, format!("{module}#system@system:platform")),
    ] {
        let tuple = TupleText::parse(&text).expect("a tuple");
        assert!(operate::change(&mut owner, add, &tuple, "me").await.expect("control"), "{text}");
    }
    let sql = "SELECT count(*) FROM audit.authz__events";
    let audited = sqlx::query_scalar::<_, i64>(sql).fetch_one(&rows.0).await.expect("a number");
    assert_eq!(audited, 3 + 4, "refusals are not audited");
}

/// A grant that depends on a tuple holds the lock of its object until the grant is written.
#[tokio::test]
async fn a_tuple_is_removed_when_no_grant_is_being_written_on_its_object() {
    let database = testkit::database().await;
    let pool = database.owner_pool();
    let mut owner = PgConnection::connect_with(&database.owner_options()).await.expect("a connection");
    let tuple = TupleText::parse("company_module:c/crm#admin@user:ann").expect("a tuple");
    assert!(operate::change(&mut owner, true, &tuple, "me").await.expect("control"));
    let mut granting = pool.begin().await.expect("a transaction");
    let lock = "SELECT pg_advisory_xact_lock(hashtext('authz.grants'), (hashtextextended('company_module:c/crm', 0) & 127)::int)";
    sqlx::query(lock).execute(&mut *granting).await.expect("held");
    let mut removing = Box::pin(operate::change(&mut owner, false, &tuple, "me"));
    let waiting = async {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        while sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await.expect("activity") == 0 {
            tokio::task::yield_now().await;
        }
    };
    let early = tokio::select! {
        _ = &mut removing => true,
        () = waiting => false,
    };
    assert!(!early, "it waits for the grant");
    granting.rollback().await.expect("let go");
    assert!(removing.await.expect("done"));
}

#[tokio::test]
async fn a_relation_is_checked_and_explained() {
    let database = testkit::database().await;
    let (pool, rows) = (database.owner_pool(), Rows(database.owner_pool()));
    let company = rows.company().await;
    rows.defaults(company, "crm").await;
    rows.tuple(&format!("company:{company}#member@user:ann"), "org").await;
    let ask = Ask::new(ObjectRef::company_module(company, "crm"), "member");
    for (subject, held) in [("ann", true), ("ben", false)] {
        let subject = SubjectRef::user(subject);
        assert_eq!(operate::check(&pool, &ask, &subject).await.expect("an answer"), held);
        let why = operate::explain(&pool, &ask, &subject).await.expect("an answer");
        assert_eq!((why.held, why.path.contains("#member@user:ann"), why.tree.is_some()), (held, held, true));
    }
    for (kind, relation, told) in
        [("company_modul", "member", "no type"), ("company_module", "membr", "member")]
    {
        let object = ObjectRef { kind: kind.to_owned(), id: ask.object.id.clone() };
        let (misspelt, ann) = (Ask::new(object, relation), SubjectRef::user("ann"));
        let refused = operate::check(&pool, &misspelt, &ann).await.expect_err("a misspelt word is no answer");
        assert!(refused.to_string().contains(told), "{refused}");
        let refused = operate::explain(&pool, &misspelt, &ann).await.expect_err("nor here");
        assert!(refused.to_string().contains(told), "{refused}");
    }
    let held_by = |kind: &str, id: &str, relation: &str| SubjectRef {
        kind: kind.to_owned(),
        id: id.to_owned(),
        relation: relation.to_owned(),
    };
    for (subject, told) in [
        (
            held_by("usr", "ann", ""),
            "subject: no type is named \"usr\" (did you mean \"user\"?); the types are ",
        ),
        (held_by("grup", "g", "member"), "subject: no type is named \"grup\" (did you mean \"group\"?)"),
        (
            held_by("group", "g", "membr"),
            "subject: group has no relation \"membr\" (did you mean \"member\"?); it has member",
        ),
        (held_by("user", "ann", "member"), "subject: user has no relation \"member\"; it has none"),
    ] {
        let refused = operate::check(&pool, &ask, &subject).await.expect_err("an unknown subject");
        assert!(refused.to_string().starts_with(told), "{refused}");
        let refused = operate::explain(&pool, &ask, &subject).await.expect_err("nor here");
        assert!(refused.to_string().starts_with(told), "{refused}");
    }
    let nobody = held_by("group", "g", "member");
    assert!(!operate::check(&pool, &ask, &nobody).await.expect("control: a group without the tuple"));
}

#[tokio::test]
async fn a_tuple_that_the_model_does_not_know_is_not_added() {
    let database = testkit::database().await;
    let (pool, rows) = (database.owner_pool(), Rows(database.owner_pool()));
    let company = rows.company().await;
    rows.defaults(company, "crm").await;
    let module = format!("company_module:{company}/crm");
    for good in [
        format!("{module}#member@user:ann"),
        format!("{module}#member@group:g#member"),
        format!("{module}#member@company:{company}#member"),
        format!("{module}#member@company:{company}"),
    ] {
        let tuple = TupleText::parse(&good).expect("a tuple");
        operate::must_fit(&pool, &tuple).await.expect(&good);
    }
    for (bad, told) in [
        (format!("{module}#membr@user:ann"), "no relation \"membr\""),
        ("foo:1#bar@user:ann".to_owned(), "no type is named \"foo\""),
        (format!("{module}#member@group:g#memebr"), "no relation \"memebr\""),
        (format!("{module}#member@grup:g#member"), "no type is named \"grup\""),
        (format!("{module}#member@usr:ann"), "no type is named \"usr\""),
    ] {
        let tuple = TupleText::parse(&bad).expect("a tuple");
        let refused = operate::must_fit(&pool, &tuple).await.expect_err(&bad);
        assert!(refused.to_string().contains(told), "{bad}: {refused}");
    }
}
