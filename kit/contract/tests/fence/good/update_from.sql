UPDATE demo.items i SET label = k.label FROM demo.kinds k WHERE k.key = i.kind;
