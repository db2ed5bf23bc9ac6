CREATE TABLE demo.wide(
  a smallint, b integer, c bigint, d real, e double precision, f boolean, g date, h time, i interval,
  j json, k jsonb, l bytea, m inet, n cidr, o text[], p int4range, q tstzrange, r char(3), s varchar(10),
  t numeric, u timestamp, v timestamptz, w bit(3), x xml, y macaddr, z uuid);
