-- refused: outside_fence
CREATE TABLE public.items(id uuid);
