-- For registry, which may call this and read no tuple but the default grants: whether any tuple uses an object type, or one
-- relation of it (an empty relation: any), on either side. An app's new version may leave out only what has none.
CREATE FUNCTION authz.has_tuples(object_type text, relation text) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $has$
  SELECT EXISTS (SELECT FROM authz.tuple t WHERE t.object_type = $1 AND ($2 = '' OR t.relation = $2))
      OR EXISTS (SELECT FROM authz.tuple t WHERE t.subject_type = $1 AND ($2 = '' OR t.subject_relation = $2))
$has$;
REVOKE ALL ON FUNCTION authz.has_tuples(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION authz.has_tuples(text, text) TO platform_registry;
