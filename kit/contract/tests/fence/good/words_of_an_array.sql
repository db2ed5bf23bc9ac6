UPDATE demo.items SET words = array_to_tsvector((
  SELECT array_agg('a.' || word.lexeme) FROM unnest(to_tsvector('simple', title)) AS word));
