-- DROP TABLE org.members;
/* SET search_path = org; /* nested */ still a comment */
INSERT INTO demo.texts(body) VALUES ('; DROP TABLE org.members; --'), ($$SET ROLE x;$$), (E'it\'s; fine');
