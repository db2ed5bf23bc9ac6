CREATE TABLE demo.parents(id uuid PRIMARY KEY, company_id uuid NOT NULL, UNIQUE (company_id, id));
CREATE TABLE demo.children(
  id uuid PRIMARY KEY REFERENCES demo.parents(id) ON DELETE CASCADE,
  company_id uuid NOT NULL,
  CONSTRAINT of_company FOREIGN KEY (company_id, id) REFERENCES demo.parents(company_id, id) DEFERRABLE INITIALLY DEFERRED);
