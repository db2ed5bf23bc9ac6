-- refused: outside_fence
DELETE FROM registry.modules;
