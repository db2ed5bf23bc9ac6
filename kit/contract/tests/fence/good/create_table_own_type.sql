CREATE TYPE demo.state AS ENUM ('open', 'closed');
CREATE TABLE demo.t(id uuid PRIMARY KEY, state demo.state NOT NULL DEFAULT 'open');
