-- refused: outside_fence
CREATE SEQUENCE demo.numbers OWNED BY org.members.id;
