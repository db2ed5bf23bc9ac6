CREATE TABLE demo.t(code text CHECK (code ~ '^[A-Z0-9_-]{1,20}$' AND code !~ '[[:cntrl:]]'));
