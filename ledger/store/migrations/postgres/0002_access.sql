-- the access log of a tenant: a log of its own beside the one that runs are recorded in
CREATE TABLE access_logs (
    tenant text COLLATE "C" NOT NULL,
    log bigint NOT NULL,
    PRIMARY KEY (tenant)
);
CREATE UNIQUE INDEX access_logs_log ON access_logs (log);

-- requests that have entries in an access log, one of each type
CREATE TABLE access_requests (
    log bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    part bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    PRIMARY KEY (log, principal, request_id, part)
);
