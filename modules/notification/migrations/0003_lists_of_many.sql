-- notification: lists of very many messages and deliveries.

-- A page is found, and its list counted, in an index alone: the rows are wide, and a log of deliveries is long.
DROP INDEX notification.messages_list;
CREATE INDEX messages_list ON notification.messages(company_id, created_at DESC, id) INCLUDE (channel_id);
CREATE INDEX delivery_jobs_list ON notification.delivery_jobs(company_id, created_at DESC, id) INCLUDE (state, channel_id);
