CREATE TABLE demo.items(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  price numeric(12, 2) NOT NULL,
  amount int NOT NULL,
  total numeric GENERATED ALWAYS AS (price * amount) STORED);
