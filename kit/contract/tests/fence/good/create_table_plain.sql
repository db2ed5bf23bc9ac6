CREATE TABLE demo.items(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  title text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id));
