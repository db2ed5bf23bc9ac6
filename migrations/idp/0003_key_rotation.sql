-- Signing keys are replaced while the provider serves. The one that nothing has replaced signs; a replaced one stays
-- for as long as something that it signed may be shown again, and is then removed.

ALTER TABLE idp.signing_keys ADD COLUMN replaced_at timestamptz;
CREATE UNIQUE INDEX signing_keys_active ON idp.signing_keys((replaced_at IS NULL)) WHERE replaced_at IS NULL;

GRANT UPDATE (replaced_at), DELETE ON idp.signing_keys TO platform_idp;
