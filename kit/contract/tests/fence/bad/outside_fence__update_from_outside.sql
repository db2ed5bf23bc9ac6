-- refused: outside_fence
UPDATE demo.t SET a = m.a FROM org.members m WHERE m.id = t.id;
