-- docs: who takes a document or folder out of its folder, or moves it, while that is under way: another request may
-- finish it.
ALTER TABLE docs.placements
  ADD COLUMN moved_by text,
  ADD COLUMN moved_as_manager boolean NOT NULL DEFAULT false;
