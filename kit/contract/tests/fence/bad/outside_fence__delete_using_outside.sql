-- refused: outside_fence
DELETE FROM demo.t USING org.members m WHERE m.id = t.id;
