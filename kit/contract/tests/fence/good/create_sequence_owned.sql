CREATE SEQUENCE demo.numbers OWNED BY demo.items.number;
