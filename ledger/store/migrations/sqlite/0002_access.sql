-- the access log of a tenant: a log of its own beside the one that runs are recorded in
CREATE TABLE access_logs (
    tenant TEXT NOT NULL,
    log INTEGER NOT NULL,
    PRIMARY KEY (tenant)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX access_logs_log ON access_logs (log);

-- requests that have entries in an access log, one of each type
CREATE TABLE access_requests (
    log INTEGER NOT NULL,
    principal TEXT NOT NULL,
    request_id TEXT NOT NULL,
    part INTEGER NOT NULL,
    type TEXT NOT NULL,
    idx INTEGER NOT NULL,
    PRIMARY KEY (log, principal, request_id, part)
) STRICT, WITHOUT ROWID;
