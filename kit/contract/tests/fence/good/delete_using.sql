DELETE FROM demo.items i USING demo.kinds k WHERE k.key = i.kind AND k.gone;
